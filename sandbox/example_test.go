package sandbox_test

import (
	"context"
	"fmt"

	"idlemesh/sandbox"
	"idlemesh/sandbox/worker"
)

func ExamplePool_Execute() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pool := sandbox.NewPool(sandbox.Config{Start: worker.InProcess, Device: "cpu"})
	wasm := printing(1, "hello from a guest\n").wasm()
	h := newHost(wasm) // serves blobs and keeps outputs
	res, err := pool.Execute(ctx, "alice", sandbox.Spec{
		Module: sandbox.Input{Blob: nameOf(wasm), Size: int64(len(wasm))},
		Seed:   make([]byte, 32),
		Limits: sandbox.Limits{Memory: 16 << 20, Wall: 10_000, Output: 1 << 20},
	}, h)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(res.End, " ", res.Exit, ": ", h.out("stdout"))
	cancel()
	pool.Run(ctx) // ends the workers
	// Output: exited 0: hello from a guest
}
