package cli

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"

	"lukechampine.com/blake3"

	"idlemesh/ledger/record"
	"idlemesh/sandbox"
)

// A replayHost has a module and a transcript, and sums up what a run leaves.
type replayHost struct {
	name         string // of the module
	module, tape []byte
	out          map[string]*replayOutput
}

type replayOutput struct{ *blake3.Hasher }

// Close implements io.Closer.
func (replayOutput) Close() error { return nil }

// Open implements sandbox.Host.
func (h *replayHost) Open(name string) (io.ReaderAt, error) {
	switch name {
	case tapeName:
		return bytes.NewReader(h.tape), nil
	case h.name:
		return bytes.NewReader(h.module), nil
	}
	return nil, fmt.Errorf("a replay has no blob %.20q", name)
}

// Create implements sandbox.Host.
func (h *replayHost) Create(name string) (io.WriteCloser, error) {
	o := &replayOutput{blake3.New(32, nil)}
	h.out[name] = o
	return o, nil
}

// Event implements sandbox.Host.
func (*replayHost) Event(sandbox.Event) {}

func (h *replayHost) sum(name string) [32]byte {
	if o := h.out[name]; o != nil {
		return [32]byte(o.Sum(nil))
	}
	return blake3.Sum256(nil)
}

// differs says in what a recorded run is not the one that a job asks for.
func differs(s sandbox.Spec, job record.Job, body record.Body, ref record.Ref, shard uint32, p record.Params) error {
	env := maps.Clone(body.Env)
	put(&env, "MESH_JOB", ref.JobID())
	put(&env, "MESH_SHARD_INDEX", strconv.Itoa(int(shard)))
	put(&env, "MESH_SHARD_COUNT", strconv.Itoa(int(job.Shards)))
	switch {
	case strings.Join(s.Args, "\x00") != strings.Join(body.Args, "\x00") || len(s.Args) != len(body.Args):
		return fmt.Errorf("it ran with the arguments %.200q", s.Args)
	case !maps.Equal(s.Env, env):
		return fmt.Errorf("it ran in the environment %.200q", s.Env)
	case !bytes.Equal(s.Seed, body.TaskSeed(ref, shard)):
		return fmt.Errorf("it ran with another seed")
	case s.FLOPS != p.FLOPS || s.Bandwidth != p.Bandwidth:
		return fmt.Errorf("its work was measured by another reference GPU")
	}
	if err := differentLimits(s.Limits, job.Limits); err != nil {
		return err
	}
	return differentInputs(s, body)
}

// differentLimits compares limits that the job gives; the others have the node's defaults.
func differentLimits(ran sandbox.Limits, asked record.Limits) error {
	for _, x := range [...]struct {
		what       string
		ran, asked uint64
	}{
		{"memory", ran.Memory, asked.Memory}, {"time", ran.Wall, asked.Wall}, {"output", ran.Output, asked.Output},
		{"device memory", ran.VRAM, asked.VRAM}, {"fuel", ran.Fuel, asked.Fuel},
	} {
		if x.asked != 0 && x.ran != x.asked {
			return fmt.Errorf("it ran with a %s limit of %d instead of %d", x.what, x.ran, x.asked)
		}
	}
	return nil
}

// differentInputs compares names and blobs; which part of a folder's packs a file is,
// its list says, which is a blob too.
func differentInputs(s sandbox.Spec, body record.Body) error {
	short := func(b record.Blob) string { return b.Ref.String()[:26] }
	files := 0
	for _, in := range body.Inputs {
		if !in.Dir {
			files++
			if got := s.Inputs[in.Name]; got.Size != int64(in.Blob.Size) || got.Blob != short(in.Blob) {
				return fmt.Errorf("it ran with another input %s", in.Name)
			}
			continue
		}
		packs := map[string]bool{"": true}
		for _, p := range in.Packs {
			packs[short(p)] = true
		}
		for name, x := range s.Inputs {
			if strings.HasPrefix(name, in.Name+"/") {
				files++
				if !packs[x.Blob] {
					return fmt.Errorf("it ran with another input %s", name)
				}
			}
		}
	}
	if files != len(s.Inputs) {
		return fmt.Errorf("it ran with %d inputs, %d of them the job's", len(s.Inputs), files)
	}
	return nil
}
