//go:build wasip1

// Slow sleeps in steps and says after each how far it is.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"idlemesh/sandbox/guest"
)

func main() {
	steps, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	for i := range steps {
		time.Sleep(50 * time.Millisecond)
		guest.Progress(uint64(i+1), uint64(steps), "sleeping")
	}
	fmt.Println("slept", steps, "steps")
}
