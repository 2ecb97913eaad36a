package cli

import (
	"maps"
	"strings"
	"testing"

	"idlemesh/ledger/record"
	"idlemesh/sandbox"
)

// TestDiffers changes one thing after the other of what a provider says that it ran.
func TestDiffers(t *testing.T) {
	pack := record.Blob{Ref: record.Ref{7}, Size: 90}
	body := record.Body{Args: []string{"a", "b"}, Env: map[string]string{"K": "v"}, Seed: []byte("seed"), Inputs: []record.Input{
		{Name: "one", Blob: record.Blob{Ref: record.Ref{1}, Size: 5}}, {Name: "dir", Dir: true, Packs: []record.Blob{pack}},
	}}
	job, ref, params := record.Job{Shards: 3, Limits: record.Limits{Memory: 1 << 20}}, record.Ref{9}, record.Params{FLOPS: 5, Bandwidth: 6}
	honest := func() sandbox.Spec {
		return sandbox.Spec{Args: []string{"a", "b"}, Seed: body.TaskSeed(ref, 2), FLOPS: 5, Bandwidth: 6,
			Env:    map[string]string{"K": "v", "MESH_JOB": ref.JobID(), "MESH_SHARD_INDEX": "2", "MESH_SHARD_COUNT": "3"},
			Limits: sandbox.Limits{Memory: 1 << 20, Wall: 3600},
			Inputs: map[string]sandbox.Input{"one": {Blob: record.Ref{1}.String()[:26], Size: 5}, "dir/x": {Blob: pack.Ref.String()[:26], Offset: 4, Size: 2}, "dir/empty": {}}}
	}
	if err := differs(honest(), job, body, ref, 2, params); err != nil {
		t.Error(err)
	}
	for name, tc := range map[string]struct {
		change func(*sandbox.Spec)
		want   string
	}{
		"an argument less":     {func(s *sandbox.Spec) { s.Args = s.Args[:1] }, "arguments"},
		"arguments cut anew":   {func(s *sandbox.Spec) { s.Args = []string{"a\x00b"} }, "arguments"},
		"environment":          {func(s *sandbox.Spec) { s.Env["K"] = "w" }, "environment"},
		"another shard":        {func(s *sandbox.Spec) { s.Env["MESH_SHARD_INDEX"] = "1" }, "environment"},
		"another shard's seed": {func(s *sandbox.Spec) { s.Seed = body.TaskSeed(ref, 1) }, "seed"},
		"a slower reference":   {func(s *sandbox.Spec) { s.FLOPS = 1 }, "reference GPU"},
		"a smaller limit":      {func(s *sandbox.Spec) { s.Limits.Memory-- }, "memory limit"},
		"another file":         {func(s *sandbox.Spec) { s.Inputs["one"] = sandbox.Input{Blob: "x", Size: 5} }, "input one"},
		"a shorter file":       {func(s *sandbox.Spec) { s.Inputs["one"] = sandbox.Input{Blob: record.Ref{1}.String()[:26], Size: 4} }, "input one"},
		"a file of another":    {func(s *sandbox.Spec) { s.Inputs["dir/x"] = sandbox.Input{Blob: "x"} }, "input dir/x"},
		"an input more":        {func(s *sandbox.Spec) { s.Inputs["more"] = sandbox.Input{} }, "inputs"},
		"an input of none left": {func(s *sandbox.Spec) {
			maps.DeleteFunc(s.Inputs, func(k string, _ sandbox.Input) bool { return k == "one" })
		}, "input one"},
	} {
		s := honest()
		tc.change(&s)
		if err := differs(s, job, body, ref, 2, params); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
