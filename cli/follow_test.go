package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"idlemesh/ledger/record"
	"idlemesh/mesh/wire"
)

func follow(t *testing.T, shards uint32, quiet bool, events ...wire.JobEvent) (out, errs string, f *follower) {
	t.Helper()
	var o, e bytes.Buffer
	term := terminal{out: &o, err: &e}
	f = newFollower(term, newScreen(term), shards)
	f.quiet = quiet
	for _, x := range events {
		if err := f.take(x); err != nil {
			t.Fatal(err)
		}
	}
	return o.String(), e.String(), f
}

func TestFollower(t *testing.T) {
	events := []wire.JobEvent{
		{Kind: wire.Opened}, {Kind: wire.Waiting, Auction: &wire.Auction{Nodes: 1}}, {Kind: wire.Waiting},
		{Kind: wire.Auctioned, Auction: &wire.Auction{Nodes: 2, Fit: 1, Won: 1, Others: []wire.Count{{N: 1, Why: "ask > 0.40"}}}}, {Kind: wire.Auctioned},
		{Kind: wire.Leased, Device: &record.Device{Model: "cpu"}}, {Kind: wire.Progress, Done: 1, Total: 2, Text: "\x1b[2J"},
		{Kind: wire.Said, Stream: wire.Stdout, Data: []byte("out")}, {Kind: wire.Said, Stream: wire.Stderr, Data: []byte("err")},
		{Kind: wire.Said, Stream: wire.Log, Data: []byte("log")}, {Kind: wire.Lost}, {Kind: wire.Leased},
		{Kind: wire.Said, Stream: wire.Stdout, Data: []byte("out")}, {Kind: wire.Settled}, {Kind: wire.Ended, Reason: record.Finished},
		{Kind: 99},
	}
	out, errs, f := follow(t, 1, false, events...)
	if out != "out" || errs != "err" || f.end.Reason != record.Finished {
		t.Errorf("said %q, %q, ended %v", out, errs, f.end.Reason)
	}
	if out, errs, _ := follow(t, 1, true, events...); out != "" || errs != "err" {
		t.Errorf("with data on stdout: %q, %q", out, errs)
	}
	if out, errs, _ := follow(t, 2, false, events...); out != "" || errs != "" {
		t.Errorf("several tasks wait for their turn: %q, %q", out, errs)
	}
}

func outcomeOf(reason record.Reason, ends ...record.Receipt) outcome {
	o := outcome{info: wire.JobInfo{Ended: 2, Created: 1, Reason: reason, Terms: record.Job{Shards: uint32(len(ends)), MaxTotal: 10}}}
	for i, r := range ends {
		o.tasks = append(o.tasks, taskOutcome{TaskInfo: wire.TaskInfo{Shard: uint32(i), Price: 2, Rate: 400_000, Entry: uint64(i),
			Receipt: &record.Signed[record.Receipt]{Value: r}}})
	}
	return o
}

func TestVerdict(t *testing.T) {
	good, bad := record.Receipt{End: record.Exited}, record.Receipt{End: record.Exited, Exit: 3}
	late, trap := record.Receipt{End: record.TimedOut}, record.Receipt{End: record.Trapped}
	noMatch := outcomeOf(record.Expired)
	noMatch.end.Err = &wire.Error{Code: wire.NoMatch, Text: "nobody has 80 GiB"}
	for name, tc := range map[string]struct {
		o     outcome
		code  int
		state string
		says  string
	}{
		"well":             {outcomeOf(record.Finished, good, good), 0, "done", ""},
		"module's own":     {outcomeOf(record.Finished, bad), 1, "failed", "exited with code 3"},
		"one of several":   {outcomeOf(record.Finished, good, bad), 1, "failed", "task 1: the module exited with code 3"},
		"timeout":          {outcomeOf(record.Finished, late), 124, "failed", "timed-out"},
		"trap":             {outcomeOf(record.Finished, trap), 1, "failed", "trapped"},
		"cancelled":        {outcomeOf(record.ByTenant), 1, "cancelled", "cancelled"},
		"expired":          {outcomeOf(record.Expired), 3, "expired", "expired"},
		"out of funds":     {outcomeOf(record.Unaffordable), 6, "failed", "out-of-funds"},
		"node lost often":  {outcomeOf(record.GivenUp), 1, "failed", "gave-up"},
		"the gateway says": {noMatch, 3, "expired", "nobody has 80 GiB"},
	} {
		err := tc.o.verdict()
		if got := status(err); got != tc.code || tc.o.state() != tc.state || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %s, status %d, %v; want %s, %d, %q", name, tc.o.state(), got, err, tc.state, tc.code, tc.says)
		}
	}
}

func TestBill(t *testing.T) {
	r := record.Receipt{End: record.Exited, Device: record.Device{Model: "cpu", Simulated: true}, Usage: record.Usage{Work: 5e6, Meter: record.CPUTime}}
	o := outcomeOf(record.Finished, r, r)
	want := "0.000004 cr for 10.000 GPU-ms at 0.400 cr/GPU-h (work by cpu-time) · refunded 0.000006"
	if got := o.billText(); !strings.HasPrefix(got, want) || strings.Count(got, "cpu (simulated)") != 1 {
		t.Errorf("bill %q, want %q and one node", got, want)
	}
	var b bytes.Buffer
	terminal{err: &b}.bill(record.Mesh{Quorum: 1, Keepers: make([]record.Member, 3)}, o, "out", true)
	for _, want := range []string{"bill ", "proof     entry 1 under tree head 0 · 1 of 3 keepers", "check     meshctl ledger verify out/task-1/proof.tlog"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "again") {
		t.Errorf("hints without a terminal:\n%s", b.String())
	}
	if got := outcomeOf(record.Expired).billText(); !strings.Contains(got, "nothing ran") {
		t.Errorf("bill of nothing: %q", got)
	}
}

func TestSummary(t *testing.T) {
	one, two, zero := uint32(1), uint32(2), uint32(0)
	e1, e2 := uint64(7), uint64(5)
	sum := summary([]taskView{{ExitCode: &zero, Price: 1, Work: 10, Entry: &e1}, {ExitCode: &two, Price: 2, Work: 20, Entry: &e2, Simulated: true}, {ExitCode: &one}})
	if *sum.ExitCode != 2 || sum.Price != 3 || sum.Work != 30 || *sum.Entry != 7 || !sum.Simulated || sum.Outputs == nil {
		t.Errorf("summary: %+v", sum)
	}
	if sum := summary(nil); sum.ExitCode != nil || sum.Entry != nil {
		t.Errorf("summary of nothing: %+v", sum)
	}
}

func TestJobPrefix(t *testing.T) {
	for in, want := range map[string]string{"j-5wq2k7rn": "5wq2k7rn", "5wq": "5wq", record.Ref{}.String(): record.Ref{}.String()} {
		if got, err := jobPrefix(in); got != want || err != nil {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "j-", "j-ABC", "j-1", "task/0", strings.Repeat("a", 53)} {
		var r *refusal
		if _, err := jobPrefix(in); !errors.As(err, &r) || r.status != 2 {
			t.Errorf("%q: %v, want a refusal", in, err)
		}
	}
}
