package sandbox_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"idlemesh/gpu/kernel"
	"idlemesh/sandbox"
)

// BenchmarkGenerate measures tokens through the whole way: a Go guest in a worker
// process writes them by kernels. Start and upload are left out, by the difference to a
// run of one token. Models of 15M weights are random; of-read is the share of the
// memory's read rate, measured beside it on two threads, that their weights are read at.
func BenchmarkGenerate(b *testing.B) {
	wasm := buildGenerate(b)
	b.Run("stories260K", func(b *testing.B) {
		dir := os.Getenv("IDLEMESH_TESTDATA")
		if dir == "" {
			b.Skip("IDLEMESH_TESTDATA is not set")
		}
		generate(b, wasm, read(b, dir, "stories260K.bin"), read(b, dir, "tok512.bin"), 512)
	})
	for version, name := range []string{1: "15M/f32", 2: "15M/q8"} {
		if name != "" {
			b.Run(name, func(b *testing.B) {
				model, vocabulary := random15M(version)
				rate := generate(b, wasm, model, vocabulary, 200)
				b.ReportMetric(rate*float64(len(model))/readRate(), "of-read")
			})
		}
	}
}

func buildGenerate(t testing.TB) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "m.wasm")
	cmd := exec.Command("go", "build", "-o", out, "../wasm-examples/generate")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// A generator runs the example on one model.
type generator struct {
	p *sandbox.Pool
	h *testHost
	s sandbox.Spec
}

func newGenerator(b *testing.B, wasm, model, vocabulary []byte) generator {
	g := generator{openPool(b, sandbox.Config{Dir: b.TempDir()}), newHost(wasm), spec(wasm)}
	g.s.Inputs = map[string]sandbox.Input{}
	for name, blob := range map[string][]byte{"model": model, "tokenizer": vocabulary} {
		g.h.blobs[nameOf(blob)] = blob
		g.s.Inputs[name] = sandbox.Input{Blob: nameOf(blob), Size: int64(len(blob))}
	}
	g.s.Limits = sandbox.Limits{Memory: 256 << 20, Wall: 300_000, Output: 1 << 20, VRAM: 1 << 30}
	g.run(b, 1) // compiles
	return g
}

func (g generator) run(b *testing.B, steps int) (wrote float64, took time.Duration) {
	g.s.Args = []string{"-temperature", "0", "-steps", fmt.Sprint(steps)}
	began := time.Now()
	res, err := g.p.Execute(b.Context(), "alice", g.s, g.h)
	if err != nil || res.Exit != 0 {
		b.Fatalf("Execute = %+v, %v: %s", res, err, g.h.out("stderr"))
	}
	took = time.Since(began)
	for _, m := range res.Metrics {
		if m.Name == "tokens" {
			wrote = m.Value
		}
	}
	return wrote, took
}

func generate(b *testing.B, wasm, model, vocabulary []byte, steps int) (rate float64) {
	g := newGenerator(b, wasm, model, vocabulary)
	least, tokens := time.Hour, 0.0
	_, start := g.run(b, 1)
	for b.Loop() {
		_, again := g.run(b, 1)
		start = min(start, again)
		wrote, took := g.run(b, steps)
		least, tokens = min(least, took), wrote
	}
	rate = (tokens - 1) / (least - start).Seconds()
	b.ReportMetric(rate, "tokens/s")
	b.ReportMetric(0, "ns/op")
	return rate
}

// BenchmarkTranscript is what recording adds to the time a token takes, start and inputs
// left out as in BenchmarkGenerate; start-ms is what it adds to a run of one token, which
// reads 1 MB of weights. Runs with and without it take turns, and the fastest count.
func BenchmarkTranscript(b *testing.B) {
	dir := os.Getenv("IDLEMESH_TESTDATA")
	if dir == "" {
		b.Skip("IDLEMESH_TESTDATA is not set")
	}
	plain := newGenerator(b, buildGenerate(b), read(b, dir, "stories260K.bin"), read(b, dir, "tok512.bin"))
	recorded := plain
	recorded.s.Record = true
	least := [4]time.Duration{time.Hour, time.Hour, time.Hour, time.Hour}
	for b.Loop() {
		for i, g := range []generator{plain, recorded, plain, recorded} {
			_, took := g.run(b, []int{1, 512}[i/2])
			least[i] = min(least[i], took)
		}
	}
	without, with := least[2]-least[0], least[3]-least[1]
	b.ReportMetric(100*(with.Seconds()/without.Seconds()-1), "overhead-%")
	b.ReportMetric(float64((least[1]-least[0]).Microseconds())/1000, "start-ms")
	b.ReportMetric(float64(len(plain.h.out(sandbox.Transcript))), "transcript-bytes")
	b.ReportMetric(0, "ns/op")
}

// random15M is a model of the shape of stories15M and a vocabulary for it. Its weights
// are all read for each token, but for the embedding, which is the classifier too.
func random15M(version int) (model, vocabulary []byte) {
	const dim, hidden, layers, heads, vocab, context, group = 288, 768, 6, 6, 32000, 256, 32
	r := rand.New(rand.NewPCG(1, 2))
	model, _ = binary.Append(nil, binary.LittleEndian, []int32{0x616b3432, int32(version), dim, hidden, layers, heads, heads, vocab, context})
	model = append(model, 1)
	model, _ = binary.Append(model, binary.LittleEndian, int32(group))
	model = append(model, make([]byte, 256-len(model))...)
	numbers := func(n int, least, width float32) {
		v := make([]float32, n)
		for i := range v {
			v[i] = least + width*r.Float32()
		}
		model, _ = binary.Append(model, binary.LittleEndian, v)
	}
	numbers((2*layers+1)*dim, 1, 0)
	tensor := func(copies, n int) {
		for range copies {
			if version == 1 {
				numbers(n, -0.1, 0.2)
				continue
			}
			for range n {
				model = append(model, byte(r.IntN(255)-127))
			}
			numbers(n/group, 0.0005, 0.0001)
		}
	}
	tensor(1, vocab*dim)
	tensor(4*layers, dim*dim)
	tensor(3*layers, dim*hidden)
	vocabulary, _ = binary.Append(nil, binary.LittleEndian, int32(8))
	for i := range vocab {
		piece := fmt.Sprintf("<%05d>", i)
		vocabulary, _ = binary.Append(vocabulary, binary.LittleEndian, float32(0))
		vocabulary, _ = binary.Append(vocabulary, binary.LittleEndian, int32(len(piece)))
		vocabulary = append(vocabulary, piece...)
	}
	return model, vocabulary
}

// readRate is how many bytes of memory two threads read in a second at best.
func readRate() float64 {
	words := make([]uint64, 16<<20)
	least := time.Hour
	var sink [2]uint64
	for range 5 {
		began := time.Now()
		var wg sync.WaitGroup
		for half := range 2 {
			wg.Go(func() {
				var a, b, c, d uint64
				for v := words[half*len(words)/2:][:len(words)/2]; len(v) >= 8; v = v[8:] {
					a, b, c, d = a+v[0]+v[1], b+v[2]+v[3], c+v[4]+v[5], d+v[6]+v[7]
				}
				sink[half] = a + b + c + d
			})
		}
		wg.Wait()
		least = min(least, time.Since(began))
	}
	if sink[0] != 0 {
		panic("zeros do not add up to zero")
	}
	return 8 * float64(len(words)) / least.Seconds()
}

// BenchmarkCommand is what one of many small kernel calls costs a guest: it submits a
// list of 4,096 again and again.
func BenchmarkCommand(b *testing.B) {
	const list, rounds, base = kernel.MaxCommands, 100, 65536
	c := kernel.Command{Op: kernel.Fill, M: 1, N: 1, Dst: kernel.Operand{Buffer: 1}}
	data, _ := binary.Append(nil, binary.LittleEndian, []uint32{uint32(c.Op), 0, 1, 0, 0, 0})
	data = append(data, make([]byte, kernel.Size-len(data))...)
	binary.LittleEndian.PutUint32(data[72:], c.M)
	binary.LittleEndian.PutUint32(data[76:], c.N)
	g := guest{pages: 12, locals: 1, data: strings.Repeat(" ", base) + strings.Repeat(string(data), list)}
	g.imports = []imp{{"mesh_gpu_v1", "alloc", []byte{vi64}, []byte{vi32}}, {"mesh_gpu_v1", "submit", []byte{vi32, vi32}, []byte{vi64}}}
	get, set := []byte{0x20, 0}, []byte{0x21, 0}
	// Rounds are counted down; a refusal, which is event 0, ends in a trap.
	body := func(rounds int64) []byte {
		return do(i64(64), call(0), drop, i64(rounds), set, []byte{0x03, 0x40},
			i32(base), i32(list), call(1), []byte{0x50, 0x04, 0x40}, unreachable, []byte{0x0b},
			get, i64(-1), []byte{0x7c}, set, get, []byte{0x50, 0x45, 0x0d, 0, 0x0b})
	}
	p := openPool(b, sandbox.Config{Dir: b.TempDir()})
	run := func(rounds int64) time.Duration {
		g.code = body(rounds)
		wasm := g.wasm()
		s := spec(wasm)
		least := time.Hour
		for range 3 {
			began := time.Now()
			if res, err := p.Execute(b.Context(), "alice", s, newHost(wasm)); err != nil || res.End != sandbox.Exited {
				b.Fatal(res, err)
			}
			least = min(least, time.Since(began))
		}
		return least
	}
	for b.Loop() {
		each := (run(rounds+1) - run(1)) / (rounds * list)
		b.ReportMetric(float64(each), "ns/command")
	}
	b.ReportMetric(0, "ns/op")
}
