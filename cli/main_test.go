package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"idlemesh/sandbox"
	"idlemesh/sandbox/worker"
)

// TestMain lets the test binary be the worker that its nodes start.
func TestMain(m *testing.M) {
	if slices.Equal(os.Args, sandbox.Args) {
		if err := worker.Main(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
