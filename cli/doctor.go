package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/cpu"

	"idlemesh/gpu/nvml"
	"idlemesh/ledger"
	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/node"
	"idlemesh/mesh/wire"
	"idlemesh/sandbox"
)

func (t terminal) doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "check what meshctl needs on this machine",
		Description: "meshctl doctor\nmeshctl doctor -o json",
		Action: func(c *cli.Context) error {
			if _, err := operands(c, 0, 0); err != nil {
				return err
			}
			return t.doctor(c)
		},
	}
}

// A finding is what one check found, and what helps.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, warn, fail
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"`
}

func ok(format string, a ...any) finding {
	return finding{State: "ok", Found: fmt.Sprintf(format, a...)}
}

func warn(remedy, format string, a ...any) finding {
	return finding{State: "warn", Found: fmt.Sprintf(format, a...), Remedy: remedy}
}

func fail(remedy, format string, a ...any) finding {
	return finding{State: "fail", Found: fmt.Sprintf(format, a...), Remedy: remedy}
}

func (t terminal) doctor(c *cli.Context) error {
	dir, err := home(c)
	if err != nil {
		return err
	}
	h := health{ctx: c.Context, home: dir}
	var rows []finding
	bad := 0
	for _, check := range []struct {
		name string
		run  func() finding
	}{
		{"go", h.goTool}, {"processor", processor}, {"gpu", h.gpu}, {"speed", h.speed}, {"home", h.folder}, {"key", h.key}, {"disk", h.disk},
		{"ledger", h.ledger}, {"udp", udp}, {"udp buffers", buffers}, {"worker", h.worker}, {"walls", h.walls}, {"clock", h.clock}, {"mesh", h.mesh},
	} {
		f := check.run()
		f.Check = check.name
		if f.State == "fail" {
			bad++
		}
		rows = append(rows, f)
	}
	err = list(t, c, rows, []column[finding]{
		{head: "check", cell: func(f finding) string { return f.Check }},
		{head: "state", cell: func(f finding) string { return f.State }},
		{head: "found", cell: func(f finding) string { return f.Found }},
		{head: "remedy", cell: func(f finding) string { return f.Remedy }},
	})
	if err == nil && bad > 0 {
		err = &refusal{status: 1, text: fmt.Sprintf("doctor: %d of %d checks failed", bad, len(rows))}
	}
	return err
}

// health is what the checks look at.
type health struct {
	ctx    context.Context
	home   string
	probed bool
	layers []string // walls that the worker misses
	err    error    // of the worker's start
}

func (h *health) goTool() finding {
	out, err := exec.CommandContext(h.ctx, "go", "env", "GOVERSION").Output()
	if err != nil {
		return warn("install Go, or submit .wasm files", "no Go: folders cannot be built (%v)", err)
	}
	return ok("%s builds folders", strings.TrimSpace(string(out)))
}

func processor() finding {
	var has []string
	for _, f := range []struct {
		name string
		has  bool
	}{{"AVX2", cpu.X86.HasAVX2}, {"FMA", cpu.X86.HasFMA}, {"AVX-512", cpu.X86.HasAVX512F}, {"NEON", cpu.ARM64.HasASIMD}} {
		if f.has {
			has = append(has, f.name)
		}
	}
	return ok("%d CPUs %s with %s", runtime.NumCPU(), runtime.GOARCH, strings.Join(has, ", "))
}

// gpu says where kernels will run, and why not on something better: in the words of the
// backends themselves, and of the cards' sensors.
func (h *health) gpu() finding {
	pool := sandbox.NewPool(sandbox.Config{Log: slog.New(slog.DiscardHandler), Device: "cpu"})
	paths, err := pool.Paths(h.ctx)
	if err != nil {
		return warn("", "unknown: no worker (%v)", err)
	}
	used, others := "none", ""
	for _, p := range paths {
		switch {
		case !p.Opens:
			others += fmt.Sprintf("; not %s: %s", p.Device, p.Why)
		case used == "none":
			used = fmt.Sprintf("kernels run on %s, %s", p.Device, p.Why)
		}
	}
	used += others + "; sim:MODEL devices are simulated"
	switch found, err := cards(); {
	case errors.Is(err, nvml.ErrNoDriver):
		return ok("%s; no NVIDIA driver here", used)
	case err != nil:
		return warn("nvidia-smi tells more", "%s; NVIDIA's driver does not answer: %v", used, err)
	case len(found) == 0:
		return ok("%s; an NVIDIA driver without cards", used)
	default:
		return ok("%s; cards here: %s", used, strings.Join(found, "; "))
	}
}

// speed says what this home's node will be taken to be as fast as.
func (h *health) speed() finding {
	const next = "meshctl bench"
	b, params, err := h.bench()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ok("not measured yet: a node counts as the slowest until it is; node run measures when it first sells to a mesh, and so does %s", next)
	case err != nil:
		return warn(next, "the last bench is of no use: %v", err)
	}
	return ok("%s ‰ of the reference GPU, measured %s on %s", fmt.Sprint(b.Value.Speed(params)), b.Value.At.Time().Format(time.DateOnly), b.Value.Hardware)
}

// bench is what was measured last, and what the mesh measures by.
func (h *health) bench() (b record.Signed[record.Bench], p record.Params, err error) {
	base, p, err := benchPlace(h.ctx, h.home)
	if err != nil {
		return b, p, err
	}
	raw, err := os.ReadFile(filepath.Join(base, node.BenchFile))
	if err == nil {
		b, err = record.Open[record.Bench](raw)
	}
	return b, p, err
}

func (h *health) folder() finding {
	f, err := os.CreateTemp(h.home, ".doctor-*")
	if err != nil {
		return fail("make it writable, or choose another with --home", "%v", plain(err))
	}
	f.Close()
	os.Remove(f.Name())
	i, err := os.Stat(h.home)
	if err != nil {
		return fail("choose another with --home", "%v", plain(err))
	}
	if i.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return warn("chmod 700 "+h.home, "%s is open to others (mode %04o)", h.home, i.Mode().Perm())
	}
	return ok("%s", h.home)
}

func (h *health) key() finding {
	var found []string
	for _, path := range []string{keyFile(h.home), nodeKeyFile(h.home)} {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		k, err := identity.Open(path)
		switch {
		case errors.Is(err, identity.ErrReadable):
			return fail("chmod 600 "+path, "others may read %s", path)
		case err != nil:
			return fail("restore it from a backup", "%v", err)
		}
		found = append(found, filepath.Base(path)+" "+k.ID().Short())
	}
	if len(found) == 0 {
		return ok("none yet: the first command that needs one makes it")
	}
	return ok("%s", strings.Join(found, ", "))
}

func (h *health) disk() finding {
	free, err := freeSpace(h.home)
	switch {
	case err != nil:
		return warn("", "free space is unknown: %v", err)
	case free < 64<<20:
		return fail("make room", "%s free: the ledger takes no entries below 67.1 MB", size(free))
	case free < 2<<30:
		return warn("make room", "%s free", size(free))
	}
	return ok("%s free", size(free))
}

// ledger opens the ledger for reading, which needs that no node runs.
func (h *health) ledger() finding {
	m, base, err := h.which()
	if errors.Is(err, fs.ErrNotExist) {
		return ok("none yet")
	}
	if err != nil {
		return fail("restore it from a backup, or join the mesh again", "%v", err)
	}
	l, err := ledger.OpenReadOnly(filepath.Join(base, "ledger"), m, ledger.Config{Log: slog.New(slog.DiscardHandler)})
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return ok("none here")
	case errors.Is(err, ledger.ErrLocked):
		return ok("in use by process %d", lockPID(base))
	case err != nil:
		return fail("restore "+base+" from a backup, or move it away", "%v", err)
	}
	defer l.Close()
	return ok("%d entries; meshctl ledger verify checks each", l.Head().Size)
}

// which is the mesh of this home and where its node keeps its files.
func (h *health) which() (signedMesh, string, error) {
	m, joined, err := joinedMesh(h.home)
	if err != nil || joined {
		return m, nodeBase(h.home), err
	}
	m, err = readMesh(embeddedFile(h.home))
	return m, embeddedBase(h.home), err
}

func udp() finding {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return fail("allow UDP on loopback", "%v", err)
	}
	defer pc.Close()
	if err := pc.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return fail("allow UDP on loopback", "%v", err)
	}
	var b [8]byte
	_, err = pc.WriteTo([]byte("idlemesh"), pc.LocalAddr())
	if err == nil {
		_, _, err = pc.ReadFrom(b[:])
	}
	if err != nil || string(b[:]) != "idlemesh" {
		return fail("allow UDP on loopback: a firewall may drop it", "no packet came back: %v", err)
	}
	return ok("packets come back on loopback")
}

// worker starts the process that runs modules.
func (h *health) worker() finding {
	if err := h.probe(); err != nil {
		return fail("run meshctl from a folder that allows to execute it", "%v", err)
	}
	return ok("starts")
}

func (h *health) walls() finding {
	switch err := h.probe(); {
	case err != nil:
		return warn("", "unknown: no worker")
	case len(h.layers) > 0:
		return warn("a newer Linux kernel has them; the node's adverts say that they are missing", "missing around workers: %s", strings.Join(h.layers, ", "))
	}
	return ok("no layer is missing around workers")
}

func (h *health) probe() error {
	if h.probed {
		return h.err
	}
	h.probed = true
	ctx, cancel := context.WithTimeout(h.ctx, 30*time.Second)
	pool := sandbox.NewPool(sandbox.Config{Log: slog.New(slog.DiscardHandler), Device: "cpu"})
	done := make(chan error, 1)
	go func() { done <- pool.Run(ctx) }()
	hello, err := pool.Probe(ctx)
	cancel()
	h.layers, h.err = hello.Layers, errors.Join(err, <-done)
	return h.err
}

// clock compares this machine's clock with the mesh's ledger, by which every deadline goes.
func (h *health) clock() finding {
	now := time.Now()
	if now.Year() < 2025 || now.Year() > 2100 {
		return fail(setClock, "%s", now.Format(time.RFC3339))
	}
	m, joined, err := joinedMesh(h.home)
	if err != nil || !joined {
		return ok("%s; it is the clock of this home's own ledger too", now.UTC().Format(time.RFC3339))
	}
	key, err := identity.Open(keyFile(h.home))
	if err != nil {
		return warn("", "%s; it cannot be compared: %v", now.UTC().Format(time.RFC3339), err)
	}
	var f finding
	err = user{home: h.home, key: key}.joined(h.ctx, m, func(ctx context.Context, cl *client.Client) error {
		before := time.Now()
		s, err := cl.Status(ctx, m.Value.Keepers[0].Key.ID())
		if err == nil {
			f = compare(before, time.Now(), s.Ledger)
		}
		return err
	})
	if err != nil {
		return warn("start a keeper, or check the network", "%s; no keeper answers to compare it with: %v", now.UTC().Format(time.RFC3339), err)
	}
	return f
}

const (
	setClock = "set this machine's clock, and keep it set by NTP: timedatectl set-ntp true on Linux, w32tm /resync on Windows"
	// mostOff is how far a keeper's clock may be from others' before they refuse it.
	mostOff = 30 * time.Second
)

// compare says how far the clock is off that showed before when ledger time was asked for
// and after when it was told.
func compare(before, after time.Time, ledger record.Millis) finding {
	if ledger == 0 {
		return warn("update the keeper", "%s; the keeper does not tell the ledger's time", after.UTC().Format(time.RFC3339))
	}
	off, way := before.Add(after.Sub(before)/2).Sub(ledger.Time()), "ahead of"
	if off < 0 {
		off, way = -off, "behind"
	}
	doubt := after.Sub(before) / 2
	text := fmt.Sprintf("%s; %.1f s %s the ledger's time, give or take %.1f s", after.UTC().Format(time.RFC3339), off.Seconds(), way, doubt.Seconds())
	switch {
	case off-doubt > mostOff:
		return fail(setClock+"; jobs may expire before they begin", "%s", text)
	case off-doubt > mostOff/6:
		return warn(setClock, "%s", text)
	}
	return ok("%s", text)
}

func (h *health) mesh() finding {
	m, joined, err := joinedMesh(h.home)
	switch {
	case err != nil:
		return fail("", "%v", err)
	case !joined:
		return ok("none joined: the embedded one on this machine is used")
	}
	key, err := identity.Open(keyFile(h.home))
	if err != nil {
		return fail("", "%v", err)
	}
	var s wire.StatusReply
	var before, after time.Time
	err = user{home: h.home, key: key}.joined(h.ctx, m, func(ctx context.Context, cl *client.Client) (err error) {
		before = time.Now()
		s, err = cl.Status(ctx, record.NodeID{})
		after = time.Now()
		return err
	})
	if err != nil {
		return fail("start a gateway, or check the network", "%v", err)
	}
	return ok("%s: gateway %s answers after %d ms", m.Value.Name, s.ID.Short(), after.Sub(before).Milliseconds())
}
