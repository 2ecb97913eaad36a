package provider

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fxamacker/cbor/v2"

	"idlemesh/gpu/kernel"
	"idlemesh/ledger/record"
	"idlemesh/sandbox"
	"idlemesh/sandbox/frame"
)

const (
	// benchLife is how long a measurement counts: dust settles, and drivers change.
	benchLife = 30 * 24 * time.Hour
	// maxBench bounds the file that keeps one, in bytes.
	maxBench = 64 << 10
)

// Measure lets a worker of pool measure the device in about limit, and signs the result.
// Ctx ends it, and report is told of each step before it begins.
func Measure(ctx context.Context, pool *sandbox.Pool, key crypto.Signer, limit time.Duration, report func(frame.Measured)) (record.Signed[record.Bench], error) {
	begin := time.Now()
	hello, result, err := pool.Measure(ctx, limit, report)
	if err != nil {
		return record.Signed[record.Bench]{}, err
	}
	var info kernel.Info
	var m kernel.Measured
	if err := errors.Join(cbor.Unmarshal(hello.Device, &info), cbor.Unmarshal(result, &m)); err != nil {
		return record.Signed[record.Bench]{}, fmt.Errorf("measure: %w", err)
	}
	return record.Sign(key, record.Bench{Model: info.Model, Backend: info.Backend, Hardware: hello.Hardware, FLOPS: m.FLOPS, Bandwidth: m.Bandwidth,
		Tokens: m.Tokens, Write: m.Write, Read: m.Read, At: record.At(begin), Took: record.Span(time.Since(begin))})
}

// StoreBench keeps b in a file, for providers that run or start later.
func StoreBench(path string, b record.Signed[record.Bench]) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".bench-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b.Raw())
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// gauge sees to it that what is advertised was measured: it takes what the file has, or
// measures once where that does not hold.
func (p *Provider) gauge(ctx context.Context) {
	if p.device.Simulated { // only Run, whose goroutine this is, writes it
		return
	}
	b, err := p.recall()
	if err != nil && p.bench == nil {
		b, err = p.measure(ctx, err)
	}
	if err == nil && (p.bench == nil || b.Ref() != p.bench.Ref()) {
		p.adopt(b)
	}
}

// measure measures the device for a reason, if it is for sale and nothing runs on it. An
// owner who takes it back ends that, and it is measured later.
func (p *Provider) measure(ctx context.Context, why error) (b record.Signed[record.Bench], err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.mu.Lock()
	mine := !p.gauged && p.cfg.Gauge > 0 && p.openLocked(p.now()) && p.running == 0
	if mine {
		p.gauging = cancel
	}
	p.mu.Unlock()
	if !mine {
		return b, why
	}
	p.cfg.Log.Info("measuring the device", "takes", p.cfg.Gauge, "because", why)
	b, err = Measure(ctx, p.cfg.Pool, p.cfg.Key, p.cfg.Gauge, nil)
	p.mu.Lock()
	p.gauging = nil
	p.mu.Unlock()
	p.gauged = ctx.Err() == nil
	if err != nil && p.gauged {
		p.cfg.Log.Warn("speed not measured: the device counts as the slowest", "err", err)
	}
	if err == nil && p.cfg.Bench != "" {
		if err := StoreBench(p.cfg.Bench, b); err != nil {
			p.cfg.Log.Warn("the bench is not kept", "err", err)
		}
	}
	return b, err
}

// adopt advertises the speed that b shows.
func (p *Provider) adopt(b record.Signed[record.Bench]) {
	p.mu.Lock()
	p.bench = &b
	p.device.Speed = b.Value.Speed(p.cfg.Mesh.Params)
	speed := p.device.Speed
	p.mu.Unlock()
	p.cfg.Log.Info("device measured", "permille", speed, "gflops", b.Value.FLOPS/1e9, "gbytes", b.Value.Bandwidth/1e9, "at", b.Value.At.Time().Format(time.RFC3339))
}

// errOther is why a bench does not count here.
var errOther = errors.New("the last bench is of other hardware")

// recall returns the bench in the file if it holds for this device, now.
func (p *Provider) recall() (b record.Signed[record.Bench], err error) {
	raw, err := readBench(p.cfg.Bench)
	if errors.Is(err, fs.ErrNotExist) {
		return b, errors.New("it was not measured yet")
	}
	if err == nil {
		b, err = record.Open[record.Bench](raw)
	}
	age := p.now() - b.Value.At
	switch {
	case err != nil:
		return b, fmt.Errorf("the last bench cannot be read: %w", err)
	case b.By() != p.cfg.Key.ID():
		return b, errors.New("the last bench is another node's")
	case b.Value.Model != p.device.Model || b.Value.Backend != p.device.Backend || b.Value.Hardware != p.hardware:
		return b, errOther
	case age > record.Span(benchLife) || age < -record.Span(time.Hour):
		return b, errors.New("the last bench is too old")
	}
	return b, nil
}

func readBench(path string) ([]byte, error) {
	if path == "" {
		return nil, fs.ErrNotExist
	}
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxBench {
		err = fmt.Errorf("%d bytes", info.Size())
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}
