package cli

import (
	"github.com/urfave/cli/v2"

	"idlemesh/sandbox/worker"
)

// workerCommand is how a node re-executes this binary; nobody types it.
func (t terminal) workerCommand() *cli.Command {
	return &cli.Command{Name: "worker", Hidden: true, Action: func(c *cli.Context) error { return worker.Main(c.Context) }}
}
