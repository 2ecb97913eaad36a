package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"idlemesh/ledger/record"
	"idlemesh/mesh/client"
	"idlemesh/mesh/wire"
)

// patience is how long a job is watched without a word from its gateway.
const patience = time.Minute

// following says what to follow and what to leave behind.
type following struct {
	job      record.Ref
	settings []setting // for job.yaml; nil where they are not known
}

// follow waits for a job's end while the module's words come out, and prints what
// came of it.
func (t terminal) follow(ctx context.Context, c *cli.Context, cl *client.Client, scr *screen, w following) error {
	var info wire.JobInfo
	err := again(ctx, func() (err error) {
		info, err = jobOf(ctx, cl, w.job)
		return err
	})
	if err != nil {
		return err
	}
	f := newFollower(t, scr, info.Terms.Shards)
	f.quiet = c.String("output") != "table" && c.String("output") != "wide"
	if err := f.watch(ctx, cl, w.job); err != nil {
		return err
	}
	scr.close()
	o, err := gather(ctx, cl, w.job, f.end)
	if err != nil {
		return err
	}
	if err := t.finishWords(ctx, cl, f, o); err != nil {
		return err
	}
	return t.conclude(ctx, c, cl, o, w)
}

// A follower folds a job's events.
type follower struct {
	t              terminal
	scr            *screen
	shards, ended  uint32
	stdout, stderr *spout
	quiet          bool // stdout is for data that is not the module's
	places         map[uint32]string
	end            wire.JobEvent
}

func newFollower(t terminal, scr *screen, shards uint32) *follower {
	return &follower{t: t, scr: scr, shards: shards, stdout: newSpout(scr.words(t.out)), stderr: newSpout(scr.words(t.err)), places: map[uint32]string{}}
}

// watch takes events until the job has ended. A gateway that is gone for a while may
// come back.
func (f *follower) watch(ctx context.Context, cl *client.Client, job record.Ref) error {
	for last := time.Now(); ; {
		heard, err := f.listen(ctx, cl, job)
		var far *wire.Error
		switch {
		case f.end.Kind == wire.Ended:
			return nil
		case ctx.Err() != nil:
			return &refusal{status: 130, text: "interrupted: " + job.JobID() + " is not cancelled and can be waited for",
				next: "meshctl job wait " + job.JobID()}
		case errors.As(err, &far) && far.Code != wire.Unavailable && far.Code != wire.Internal:
			return err
		case heard:
			last = time.Now()
		}
		if time.Since(last) > patience {
			return &refusal{status: 1, text: fmt.Sprintf("%s: no word from the gateway for %v: %v", job.JobID(), patience, err),
				next: "meshctl job wait " + job.JobID()}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (f *follower) listen(ctx context.Context, cl *client.Client, job record.Ref) (heard bool, err error) {
	f.ended = 0 // what was kept comes again
	for e, err := range cl.Watch(ctx, job, true) {
		if err == nil {
			heard, err = true, f.take(e)
		}
		if err != nil {
			return heard, err
		}
		if e.Kind == wire.Ended {
			return true, nil
		}
	}
	return heard, nil
}

// take folds one event.
func (f *follower) take(e wire.JobEvent) error {
	name := "task"
	if f.shards > 1 {
		name = fmt.Sprintf("task %d", e.Shard)
	}
	switch e.Kind {
	case wire.Auctioned:
		if a := e.Auction; a != nil {
			f.scr.say("auction", fmt.Sprintf("%s · %d won · %s", fitText(*a), a.Won, span(a.Took)))
		}
	case wire.Waiting:
		text := "all who fit are busy"
		if e.Auction != nil {
			text = fitText(*e.Auction) + ", none free"
		}
		f.bar(name, 0, 0, "waiting: "+text)
	case wire.Leased:
		f.places[e.Shard] = placeText(e.Node, e.Device, e.RTT)
		f.bar(name, 0, 0, f.places[e.Shard])
	case wire.Progress:
		f.bar(name, e.Done, e.Total, f.places[e.Shard]+" · "+progressText(e.Done, e.Total, e.Text))
	case wire.Said:
		return f.said(e)
	case wire.Lost:
		f.scr.say(name, fmt.Sprintf("%s was lost: the task goes elsewhere", e.Node.Short()))
	case wire.Settled:
		f.ended++
		f.scr.done(name)
		if f.shards > maxBars {
			f.scr.at("tasks", uint64(f.ended), uint64(f.shards), fmt.Sprintf("%d of %d", f.ended, f.shards))
		}
	case wire.Ended:
		f.end = e
	}
	return nil
}

func (f *follower) bar(name string, done, total uint64, text string) {
	if f.shards <= maxBars {
		f.scr.at(name, done, total, clean(text))
	}
}

func (f *follower) said(e wire.JobEvent) error {
	switch {
	case f.shards > 1: // theirs come in order, at the end
		return nil
	case e.Stream == wire.Stdout && !f.quiet:
		return f.stdout.take(e.Offset, e.Data)
	case e.Stream == wire.Stderr:
		return f.stderr.take(e.Offset, e.Data)
	}
	return nil
}

func progressText(done, total uint64, text string) string {
	s := fmt.Sprint(done)
	if total > 0 {
		s = fmt.Sprintf("%d/%d", done, total)
	}
	if text != "" {
		s += " " + text
	}
	return s
}

// placeText says where a task runs.
func placeText(node record.NodeID, d *record.Device, rtt record.Millis) string {
	s := node.Short()
	if d != nil {
		s += " · " + deviceText(*d)
	}
	if rtt > 0 {
		s += fmt.Sprintf(" · %d ms away", rtt)
	}
	return s
}

func deviceText(d record.Device) string {
	if d.Simulated {
		return d.Model + " (simulated)"
	}
	return d.Model
}
