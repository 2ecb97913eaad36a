//go:build wasip1

// Sweep trains one classifier per shard, each with a learning rate of its own, and
// writes how well it does to /out/result.json, for the tenant to compare.
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"

	"idlemesh/sandbox/guest"
	"idlemesh/wasm-examples/sweep/classifier"
)

const steps = 300

// A result is what a shard leaves in /out/result.json.
type result struct {
	Shard    int     `json:"shard"`
	Rate     float64 `json:"lr"`
	Loss     float64 `json:"loss"`
	Accuracy float64 `json:"accuracy"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "sweep:", err)
		os.Exit(1)
	}
}

func run() error {
	shard, count, err := position()
	if err != nil {
		return err
	}
	r := result{Shard: shard, Rate: rate(shard, count)}
	trained, err := classifier.Train(guest.Device{}, float32(r.Rate), steps, func(done int) {
		guest.Progress(uint64(done), steps, "steps")
	})
	if err != nil {
		return err
	}
	r.Loss, r.Accuracy = trained.Loss, trained.Accuracy
	guest.Metric("steps", steps)
	guest.Metric("loss", r.Loss)
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.WriteFile("/out/result.json", append(b, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Printf("shard %d of %d: learning rate %.4g, loss %.4f, accuracy %.1f %%\n", shard, count, r.Rate, r.Loss, 100*r.Accuracy)
	return nil
}

// position reads which shard this is; alone, it is the only one.
func position() (shard, count int, err error) {
	count = 1
	for name, v := range map[string]*int{"MESH_SHARD_INDEX": &shard, "MESH_SHARD_COUNT": &count} {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		if *v, err = strconv.Atoi(text); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", name, err)
		}
	}
	if shard < 0 || shard >= count {
		return 0, 0, fmt.Errorf("MESH_SHARD_INDEX %d is not below MESH_SHARD_COUNT %d", shard, count)
	}
	return shard, count, nil
}

// rate spreads the shards over learning rates from 0.001 to 100, evenly by logarithm;
// a single shard takes the middle.
func rate(shard, count int) float64 {
	place := 0.5
	if count > 1 {
		place = float64(shard) / float64(count-1)
	}
	return math.Pow(10, -3+5*place)
}
