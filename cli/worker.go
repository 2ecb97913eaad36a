package cli

import (
	"context"
	"os"
	"os/signal"

	"github.com/urfave/cli/v2"

	"idlemesh/sandbox/worker"
)

// workerCommand is how the agent re-executes this binary; nobody types it.
func (t terminal) workerCommand() *cli.Command {
	return &cli.Command{Name: "worker", Hidden: true, Action: func(c *cli.Context) error {
		// A terminal sends Ctrl-C to the agent's workers too, but when they end is
		// the agent's to say.
		signal.Ignore(os.Interrupt)
		return worker.Main(context.WithoutCancel(c.Context))
	}}
}
