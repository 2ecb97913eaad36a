package gateway

import (
	"context"
	"encoding/binary"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"idlemesh/ledger/record"
	"idlemesh/mesh/author"
	"idlemesh/mesh/identity"
	"idlemesh/mesh/wire"
)

// history writes n jobs that have ended to the log.
func (c *town) history(n int) []wire.JobRequest {
	c.t.Helper()
	plain, err := record.Encode(record.Body{Name: "old", Labels: map[string]string{"age": "old"}, Module: module, Seed: make([]byte, 32)})
	if err != nil {
		c.t.Fatal(err)
	}
	sealed, err := identity.NewSealer().Seal(plain, wire.SealBody, c.gate.cfg.Key.PublicKey())
	if err != nil {
		c.t.Fatal(err)
	}
	refs, err := c.blobs.PutAll(c.gate.now()+day, sealed)
	if err != nil {
		c.t.Fatal(err)
	}
	like := c.request(0)
	a := author.New(c.gate.cfg.Key, c.gate.cfg.Open, c.mesh)
	jobs := make([]wire.JobRequest, n)
	var wg sync.WaitGroup
	for part := range 64 {
		wg.Go(func() {
			for i := part; i < n; i += 64 {
				t := like.Job.Value
				t.Body, t.MaxTotal, t.Nonce = refs[0], 1, binary.BigEndian.AppendUint64(make([]byte, 8), uint64(i))
				job := sign(c.t, c.tenant, t)
				jobs[i] = wire.JobRequest{Job: job, Body: sealed}
				for _, e := range []record.Entry{opening(job), {Kind: record.TypeClose, Stream: job.Ref(), Idem: idem("close", job.Ref()),
					Close: &record.Close{Job: job.Ref(), Why: record.Expired}}} {
					if _, err := a.Append(c.t.Context(), e); err != nil {
						c.t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	return jobs
}

// again starts another gateway over the town's log and blobs, as after a restart.
func (c *town) again() *Gateway {
	c.t.Helper()
	g, err := New(c.gate.cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	c.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Error(err)
		}
	})
	if err := g.await(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	return g
}

func (g *Gateway) remembered() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.jobs)
}

// TestManyEndedJobs: any number of jobs that have ended take the room of a thousand, and
// all of them can still be asked for. IDLEMESH_JOBS sets how many there are.
func TestManyEndedJobs(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("IDLEMESH_JOBS"))
	if err != nil {
		n = maxEnded + 200
	}
	c := newTown(t)
	jobs := c.history(n)
	g := c.again()
	if n := g.remembered(); n > maxEnded {
		t.Fatalf("%d jobs in memory, at most %d", n, maxEnded)
	}
	old := jobs[3]
	ref, me := old.Job.Ref(), wire.Caller{ID: c.tenant.ID()}
	g.mu.Lock()
	delete(g.jobs, ref) // should it be among the last
	g.mu.Unlock()
	if id, err := g.Owner(t.Context(), ref); err != nil || id != c.tenant.ID() {
		t.Errorf("owner %v, %v", id, err)
	}
	if _, err := g.Owner(t.Context(), record.Ref{1}); !wire.Is(err, wire.NotFound) {
		t.Errorf("owner of no job: %v", err)
	}
	var infos []wire.JobInfo
	keep := func(i wire.JobInfo) error { infos = append(infos, i); return nil }
	for _, prefix := range []string{ref.String(), ref.String()[:8]} {
		infos = nil
		if err := g.list(t.Context(), me, wire.JobsRequest{Prefix: prefix}, keep); err != nil || len(infos) != 1 ||
			infos[0].Reason != record.Expired || infos[0].Name != "old" || infos[0].Ended == 0 || infos[0].Entry == 0 {
			t.Errorf("list %s: %+v, %v", prefix, infos, err)
		}
	}
	infos = nil
	if err := g.list(t.Context(), me, wire.JobsRequest{Limit: maxEnded + 100, Labels: map[string]string{"age": "old"}}, keep); err != nil || len(infos) != maxEnded+100 {
		t.Errorf("list of %d, %v", len(infos), err)
	}
	if !slices.IsSortedFunc(infos, func(a, b wire.JobInfo) int { return int(b.Entry) - int(a.Entry) }) {
		t.Error("the newest do not come first")
	}
	infos = nil
	if err := g.list(t.Context(), wire.Caller{ID: record.NodeID{9}}, wire.JobsRequest{Prefix: ref.String()}, keep); err != nil || len(infos) != 0 {
		t.Errorf("a stranger sees %v, %v", infos, err)
	}
	var tasks []wire.TaskInfo
	if err := g.tasks(t.Context(), me, wire.JobQuery{Job: ref}, func(x wire.TaskInfo) error { tasks = append(tasks, x); return nil }); err != nil ||
		len(tasks) != 1 || tasks[0].State != "failed" {
		t.Errorf("tasks %+v, %v", tasks, err)
	}
	var kinds []wire.Kind
	if err := g.watch(t.Context(), me, wire.WatchRequest{Job: ref}, func(e wire.JobEvent) error { kinds = append(kinds, e.Kind); return nil }); err != nil ||
		!slices.Equal(kinds, []wire.Kind{wire.Opened, wire.Ended}) {
		t.Errorf("watched %v, %v", kinds, err)
	}
	if n := g.remembered(); n > maxEnded {
		t.Errorf("%d jobs in memory after questions about thousands", n)
	}
	if g.sweep(g.now() + keepEnded + 1000); g.remembered() != 0 || len(g.past) != 0 || g.pastSize != 0 {
		t.Errorf("%d jobs in memory ten minutes later", g.remembered())
	}
}

// TestForgottenJobIsNotBegunAgain: a job that has ended and is forgotten is still the
// same job when it is sent, or cancelled, once more.
func TestForgottenJobIsNotBegunAgain(t *testing.T) {
	c := newTown(t)
	q := c.history(1)[0]
	g := c.again()
	for range 3 {
		g.sweep(g.now() + keepEnded + 1000)
		a, err := g.submit(t.Context(), wire.Caller{ID: c.tenant.ID()}, q)
		if err != nil || !a.Known || a.Job != q.Job.Ref() || g.Busy() != 0 {
			t.Fatalf("sent again: %+v, %v, %d jobs live", a, err, g.Busy())
		}
		g.sweep(g.now() + keepEnded + 1000)
		wish := wire.CancelRequest{Cancel: sign(t, c.tenant, record.Cancel{Job: q.Job.Ref()})}
		if _, err := g.cancel(t.Context(), wire.Caller{ID: c.tenant.ID()}, wish); err != nil {
			t.Errorf("cancelled: %v", err)
		}
	}
	g.mu.Lock()
	g.cfg.Now = func() (now time.Time) { return time.Now().AddDate(1, 0, 0) } // its terms would not do any more
	g.mu.Unlock()
	if a, err := g.submit(t.Context(), wire.Caller{ID: c.tenant.ID()}, q); err != nil || !a.Known {
		t.Errorf("sent again after a year: %+v, %v", a, err)
	}
	if b := c.earned(c.tenant.ID()); b != 5*record.Credit {
		t.Errorf("the tenant has %v", b)
	}
}

// TestManyTasksInMemory: jobs of many tasks are fewer.
func TestManyTasksInMemory(t *testing.T) {
	c := newTown(t)
	g := c.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range 100 {
		j := &job{ref: record.Ref{byte(i), 1}, tasks: make([]task, maxTasks)}
		g.jobs[j.ref] = j
		g.rememberLocked(j, 0)
		if g.pastSize > maxEndedSize || len(g.jobs) > maxEndedSize/maxTasks {
			t.Fatalf("%d tasks of %d jobs", g.pastSize, len(g.jobs))
		}
	}
	clear(g.jobs)
}
