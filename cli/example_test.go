package cli_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"idlemesh/cli"
)

func ExampleRun() {
	args := strings.Fields("meshctl completion bahs")
	status := cli.Run(context.Background(), args, os.Stdin, os.Stdout, os.Stdout)
	fmt.Println("exit status", status)
	// Output:
	// meshctl: completion: "bahs" is not a shell we know: want bash, zsh or fish
	//   try: meshctl completion bash
	// exit status 2
}
