// Package classifier trains a softmax classifier by gradient descent, all of whose
// arithmetic runs on a device: four kernels a step.
//
// The data are made up, the same on every machine: points in space, labelled by a
// noisy rule that a classifier of this kind can only approach.
package classifier

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"idlemesh/gpu/kernel"
)

// A Device is where training happens; guest.Device is one.
type Device interface {
	Alloc(size uint64) (kernel.Buffer, error)
	Write(b kernel.Buffer, off uint64, p []byte) error
	Read(b kernel.Buffer, off uint64, p []byte) error
	Submit(cmds []kernel.Command) (kernel.Event, error)
}

const (
	points   = 1024 // to learn from, and as many to test with
	features = 24   // of a point, the last of which is 1
	classes  = 6
	// burst is how many steps are submitted at once.
	burst = 20
)

// A Result says how well a classifier does on points that it has not seen.
type Result struct {
	Loss     float64 // mean cross entropy in nats; nil knowledge has ln 6 = 1.79
	Accuracy float64 // share of points put in their class
}

// Train takes steps of gradient descent at the given rate and calls each after every
// few with the number of steps done.
func Train(dev Device, rate float32, steps int, each func(done int)) (Result, error) {
	t := trainer{dev: dev, rate: rate}
	if err := t.prepare(); err != nil {
		return Result{}, fmt.Errorf("train: %w", err)
	}
	for done := 0; done < steps; {
		n := min(burst, steps-done)
		if err := t.descend(n); err != nil {
			return Result{}, fmt.Errorf("train: %w", err)
		}
		done += n
		each(done)
	}
	r, err := t.test()
	if err != nil {
		return Result{}, fmt.Errorf("test: %w", err)
	}
	return r, nil
}

type trainer struct {
	dev  Device
	rate float32
	// seen are the points and what of them is subtracted from the odds to get the
	// gradient: minus one in the column of their class.
	seen, minus, fresh, weights, odds kernel.Buffer

	answers []int // classes of the fresh points
}

func (t *trainer) prepare() error {
	r := rand.New(rand.NewPCG(2026, 1))
	rule := normal(r, features*classes)
	seen, answers := label(r, rule)
	fresh, unseen := label(r, rule)
	t.answers = unseen
	minus := make([]float32, points*classes)
	for i, class := range answers {
		minus[i*classes+class] = -1
	}
	for _, part := range []struct {
		b *kernel.Buffer
		v []float32
	}{
		{&t.seen, seen}, {&t.minus, minus}, {&t.fresh, fresh},
		{&t.weights, make([]float32, features*classes)}, {&t.odds, make([]float32, points*classes)},
	} {
		p, err := binary.Append(nil, binary.LittleEndian, part.v)
		if err != nil {
			return err
		}
		if *part.b, err = t.dev.Alloc(uint64(len(p))); err != nil {
			return err
		}
		if err := t.dev.Write(*part.b, 0, p); err != nil {
			return err
		}
	}
	return nil
}

func normal(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

// label makes points and gives each the class that the rule, blurred, scores highest.
func label(r *rand.Rand, rule []float32) (x []float32, class []int) {
	x = normal(r, points*features)
	for i := range points {
		row := x[i*features : (i+1)*features]
		row[features-1] = 1
		best, top := 0, math.Inf(-1)
		for c := range classes {
			score := 2 * r.NormFloat64()
			for f, v := range row {
				score += float64(v * rule[f*classes+c])
			}
			if score > top {
				best, top = c, score
			}
		}
		class = append(class, best)
	}
	return x, class
}

// descend takes n steps: odds = softmax(X·W); W -= rate/points · Xᵀ·(odds - labels).
func (t *trainer) descend(n int) error {
	add := kernel.Command{Op: kernel.Add, M: points, N: classes, Dst: at(t.odds), A: at(t.odds), B: at(t.minus)}
	learn := kernel.Command{Op: kernel.Gemm, Flags: kernel.TransA, M: features, N: classes, K: points,
		Dst: at(t.weights), A: at(t.seen), B: at(t.odds)}
	learn.Params[6], learn.Params[7] = math.Float32bits(-t.rate/points), math.Float32bits(1)
	var cmds []kernel.Command
	for range n {
		cmds = append(append(cmds, t.predict(t.seen)...), add, learn)
	}
	_, err := t.dev.Submit(cmds)
	return err
}

// predict turns points into odds.
func (t *trainer) predict(x kernel.Buffer) []kernel.Command {
	return []kernel.Command{
		{Op: kernel.Gemm, M: points, N: classes, K: features, Dst: at(t.odds), A: at(x), B: at(t.weights)},
		{Op: kernel.Softmax, M: points, N: classes, Dst: at(t.odds), A: at(t.odds)},
	}
}

func (t *trainer) test() (Result, error) {
	if _, err := t.dev.Submit(t.predict(t.fresh)); err != nil {
		return Result{}, err
	}
	p, odds := make([]byte, 4*points*classes), make([]float32, points*classes)
	if err := t.dev.Read(t.odds, 0, p); err != nil {
		return Result{}, err
	}
	if _, err := binary.Decode(p, binary.LittleEndian, odds); err != nil {
		return Result{}, err
	}
	var res Result
	for i, class := range t.answers {
		row := odds[i*classes : (i+1)*classes]
		res.Loss -= math.Log(max(float64(row[class]), 1e-30)) / points
		right := 1.0 / points
		for c, v := range row {
			if c != class && v >= row[class] {
				right = 0
			}
		}
		res.Accuracy += right
	}
	return res, nil
}

func at(b kernel.Buffer) kernel.Operand { return kernel.Operand{Buffer: b} }
