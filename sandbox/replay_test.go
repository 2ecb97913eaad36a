package sandbox_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"idlemesh/gpu"
	"idlemesh/sandbox"
	"idlemesh/sandbox/transcript"
)

// record runs the Go guest and returns its module and its transcript.
func record(t testing.TB, p *sandbox.Pool, mode string) (wasm, tape []byte, h *testHost) {
	t.Helper()
	wasm, err := goGuest()
	if err != nil {
		t.Skip("no guest: ", err)
	}
	h = newHost(wasm)
	h.blobs["a"], h.blobs["pack"] = []byte("alpha"), []byte("....beta....")
	s := spec(wasm)
	s.Args, s.Env, s.Record = []string{mode}, map[string]string{"MESH_SHARD_INDEX": "0"}, true
	s.Inputs = map[string]sandbox.Input{"a.txt": {Blob: "a", Size: 5}, "dir/b.txt": {Blob: "pack", Offset: 4, Size: 4}}
	res, err := p.Execute(t.Context(), "alice", s, h)
	if err != nil || res.End != sandbox.Exited || res.Exit != 0 {
		t.Fatalf("recorded: %+v, %v\n%s", res, err, h.out("stderr"))
	}
	return wasm, []byte(h.out(sandbox.Transcript)), h
}

// replay runs a module by a transcript, with nothing else there.
func replay(t testing.TB, p *sandbox.Pool, wasm, tape []byte) (*testHost, error) {
	t.Helper()
	_, head, err := transcript.NewReader(bytes.NewReader(tape))
	if err != nil {
		return nil, err
	}
	var s sandbox.Spec
	if err := cbor.Unmarshal(head.Spec, &s); err != nil {
		return nil, err
	}
	s.Module = sandbox.Input{Blob: s.Module.Blob, Size: int64(len(wasm))}
	s.Replay = sandbox.Input{Blob: "tape", Size: int64(len(tape))}
	h := newHost(nil)
	h.blobs = map[string][]byte{s.Module.Blob: wasm, "tape": tape}
	_, err = p.Execute(t.Context(), "auditor", s, h)
	return h, err
}

func TestReplay(t *testing.T) {
	p := guestPool(t)
	auditor := openPool(t, sandbox.Config{Device: gpu.Replay})
	t.Run("changed", func(t *testing.T) { replayChanged(t, p, auditor) })
	t.Run("forged", func(t *testing.T) { replayForged(t, p, auditor) })
	for _, mode := range []string{"repeat", "files", "device"} {
		t.Run(mode, func(t *testing.T) {
			wasm, tape, was := record(t, p, mode)
			_, second, _ := record(t, p, mode)
			if !bytes.Equal(tape, second) {
				t.Error("two runs have two transcripts")
			}
			is, err := replay(t, auditor, wasm, tape)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(was.order, is.order) && mode != "device" { // its log is no output of the engine's
				t.Errorf("outputs %q, were %q", is.order, was.order)
			}
			for name := range was.outs {
				if is.out(name) != was.out(name) {
					t.Errorf("%s differs:\n%.300q\n%.300q", name, is.out(name), was.out(name))
				}
			}
		})
	}
}

// replayChanged changes a transcript and its module everywhere: the replay is refused, and
// says why.
func replayChanged(t *testing.T, p, auditor *sandbox.Pool) {
	wasm, tape, _ := record(t, p, "device")
	for i := 0; i < len(tape); i += 1 + len(tape)/60 {
		changed := slices.Clone(tape)
		changed[i] ^= 1
		if h, err := replay(t, auditor, wasm, changed); err == nil && h.out(sandbox.Transcript) == string(tape) {
			t.Errorf("byte %d of the transcript makes no difference", i)
		}
	}
	other := append(slices.Clone(wasm), 0, 5, 4, 'm', 'o', 'r', 'e') // a custom section
	if _, err := replay(t, auditor, other, tape); err == nil || !strings.Contains(err.Error(), "another module") {
		t.Errorf("another module: %v", err)
	}
	if _, err := replay(t, auditor, wasm, tape[:len(tape)-40]); err == nil {
		t.Error("half a transcript is replayed")
	}
	if _, err := replay(t, auditor, wasm, append(slices.Clone(tape), 1)); err == nil {
		t.Error("a transcript with more behind it is replayed")
	}
}

// replayForged replays transcripts that a liar has written well: each lie is named.
func replayForged(t *testing.T, p, auditor *sandbox.Pool) {
	wasm, tape, _ := record(t, p, "device")
	for name, tc := range map[string]struct {
		op   transcript.Op
		lie  func(*transcript.Event)
		want string
	}{
		"fuel":          {transcript.Alloc, func(e *transcript.Event) { e.Fuel++ }, "fuel"},
		"question":      {transcript.Submit, func(e *transcript.Event) { e.Asked[3]++ }, "something else"},
		"handle":        {transcript.Load, func(e *transcript.Event) { e.Value++ }, "something else"},
		"kind":          {transcript.Wait, func(e *transcript.Event) { e.Op = transcript.Free }, "recorded is free"},
		"device result": {transcript.Read, func(e *transcript.Event) { e.Data[0]++ }, "output"},
		"short result":  {transcript.Read, func(e *transcript.Event) { e.Data = e.Data[:8] }, "has 8 bytes"},
		"input":         {transcript.Input, func(e *transcript.Event) { e.Data[0]++ }, "something else"},
		"long input":    {transcript.Input, func(e *transcript.Event) { e.Data = make([]byte, 1<<20) }, "bytes"},
		"work": {transcript.End, func(e *transcript.Event) {
			var x sandbox.Ending
			if err := cbor.Unmarshal(e.Data, &x); err != nil {
				t.Fatal(err)
			}
			x.Work += 1000
			e.Data, _ = cbor.Marshal(x)
		}, "work is"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := replay(t, auditor, wasm, forge(t, tape, tc.op, tc.lie)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("replay = %v, want %q", err, tc.want)
			}
		})
	}
}

// forge writes a transcript anew with a lie in the first event of a kind.
func forge(t *testing.T, tape []byte, op transcript.Op, lie func(*transcript.Event)) []byte {
	t.Helper()
	from, head, err := transcript.NewReader(bytes.NewReader(tape))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := transcript.NewWriter(&b, head)
	if err != nil {
		t.Fatal(err)
	}
	told := false
	for {
		e, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.Op == op && !told {
			lie(&e)
			told = true
		}
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil || !told {
		t.Fatal(told, err)
	}
	return b.Bytes()
}
