package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"idlemesh/ledger/record"
)

// An ask has no content.
type ask struct{}

// A state is what a keeper says of itself.
type state struct {
	Name  string        `cbor:"1,keyasint"`
	Blank bool          `cbor:"2,keyasint,omitempty"` // it is in no quorum yet
	Last  uint64        `cbor:"3,keyasint,omitempty"` // batch in its log
	Size  uint64        `cbor:"4,keyasint,omitempty"` // of its ledger
	Now   record.Millis `cbor:"5,keyasint,omitempty"` // its clock
}

// members are the keepers by raft's newest configuration.
func members(r *raft.Raft) raft.Configuration {
	f := r.GetConfiguration()
	if f.Error() != nil { // only of a raft that has stopped
		return raft.Configuration{}
	}
	return f.Configuration()
}

func (m *Member) state() state {
	s := state{Name: m.name.String(), Size: m.cfg.Ledger.Head().Size, Now: record.At(m.cfg.Now())}
	if r := m.running(); r != nil {
		s.Last, s.Blank = r.LastIndex(), len(members(r).Servers) == 0
	}
	return s
}

// lookAgain is how often a keeper looks whether there is something to do about members.
func (m *Member) lookAgain() time.Duration { return m.cfg.Heartbeat }

// join forms the quorum with the other keepers of the mesh file, or is taken in by one
// that exists. It returns when this keeper is a member, or ctx ends.
func (m *Member) join(ctx context.Context) {
	why := ""
	for ctx.Err() == nil {
		r := m.running()
		if r == nil || m.name.in(members(r)) {
			return
		}
		if err := m.joinOnce(ctx, r); err != nil && err.Error() != why {
			why = err.Error()
			m.cfg.Log.Info("quorum: this keeper waits", "for", why)
		}
		select {
		case <-time.After(m.lookAgain()):
		case <-ctx.Done():
		}
	}
}

func (m *Member) joinOnce(ctx context.Context, r *raft.Raft) error {
	first := raft.Configuration{}
	for _, k := range m.cfg.Mesh.Value.Keepers {
		id := k.Key.ID()
		s, err := m.stateOf(ctx, id)
		if err != nil {
			return fmt.Errorf("keeper %s: %w", id.Short(), err)
		}
		n, err := parseName(s.Name)
		if err != nil || n.id != id {
			return fmt.Errorf("keeper %s says that it is %.80q", id.Short(), s.Name)
		}
		if !s.Blank {
			return m.askIn(ctx, id)
		}
		first.Servers = append(first.Servers, raft.Server{ID: n.server(), Address: n.address()})
	}
	// All are here and none has a log: the first makes one. Were fewer enough, two that
	// lost their disks could begin again beside the one that did not.
	if first.Servers[0].ID != m.name.server() || m.cfg.Ledger.Head().Size > 0 {
		return nil
	}
	return r.BootstrapCluster(first).Error()
}

// A joinRequest asks to be taken in.
type joinRequest struct {
	Name string `cbor:"1,keyasint"`
}

// A joinReply says why not, and who could.
type joinReply struct {
	Leader record.NodeID `cbor:"1,keyasint,omitzero"`
	Why    string        `cbor:"2,keyasint,omitempty"`
}

// askIn asks a keeper, and whom it names as the leader, to take this one in.
func (m *Member) askIn(ctx context.Context, id record.NodeID) error {
	for range 2 {
		rep, err := call[joinRequest, joinReply](ctx, m, id, forJoin, joinRequest{m.name.String()})
		if err != nil {
			return err
		}
		if rep.Leader == (record.NodeID{}) || rep.Leader == id {
			return cmp.Or(errorOf(rep.Why), nil)
		}
		id = rep.Leader
	}
	return ErrNoLeader
}

func errorOf(why string) error {
	if why == "" {
		return nil
	}
	return errors.New(why)
}

// admit takes in a keeper that is a member but has lost its log.
func (m *Member) admit(from record.NodeID, q joinRequest) joinReply {
	n, err := parseName(q.Name)
	if err != nil || n.id != from {
		return joinReply{Why: "the name is another keeper's"}
	}
	r, err := m.leading()
	var follows *NotLeaderError
	switch {
	case errors.As(err, &follows):
		return joinReply{Leader: follows.Leader}
	case err != nil:
		return joinReply{Why: err.Error()}
	}
	if _, ok := lives(members(r), n.id); !ok {
		return joinReply{Why: "it is no member: meshctl mesh keeper add " + n.id.String()}
	}
	if err := m.take(r, n); err != nil {
		return joinReply{Why: err.Error()}
	}
	return joinReply{}
}

// lives finds a keeper in a configuration, whichever log it was born with.
func lives(c raft.Configuration, id record.NodeID) (raft.Server, bool) {
	for _, s := range c.Servers {
		if n, err := parseName(string(s.ID)); err == nil && n.id == id {
			return s, true
		}
	}
	return raft.Server{}, false
}

// take makes n a member without a vote in place of its earlier life; tend gives it a
// vote once it has caught up.
func (m *Member) take(r *raft.Raft, n name) error {
	old, there := lives(members(r), n.id)
	switch {
	case there && n.is(old):
		return nil
	case there && len(voters(members(r))) <= 1:
		return fmt.Errorf("%w: the only keeper that has the log cannot be replaced", ErrMember)
	case there:
		m.cfg.Log.Info("quorum: a keeper has lost its log and begins anew", "keeper", n.id.Short())
		if err := r.RemoveServer(old.ID, 0, changeTime).Error(); err != nil {
			return err
		}
	}
	return r.AddNonvoter(n.server(), n.address(), 0, changeTime).Error()
}

const changeTime = 10 * time.Second

func voters(c raft.Configuration) (out []raft.Server) {
	for _, s := range c.Servers {
		if s.Suffrage == raft.Voter {
			out = append(out, s)
		}
	}
	return out
}

// tend gives members that have caught up their votes, while this keeper leads.
func (m *Member) tend(ctx context.Context) {
	var before record.NodeID
	for ctx.Err() == nil {
		if id, ok := m.Leader(); ok && id != before {
			before = id
			m.cfg.Log.Info("quorum: a keeper leads", "keeper", id.Short(), "here", id == m.id)
		}
		if r, err := m.leading(); err == nil {
			for _, s := range members(r).Servers {
				if s.Suffrage != raft.Voter {
					m.promote(ctx, r, s)
				}
			}
		}
		select {
		case <-time.After(m.lookAgain()):
		case <-ctx.Done():
		}
	}
}

// near is how many batches a keeper may be behind and still get its vote.
const near = 64

func (m *Member) promote(ctx context.Context, r *raft.Raft, s raft.Server) {
	n, err := parseName(string(s.ID))
	if err != nil {
		return
	}
	st, err := call[ask, state](ctx, m, n.id, forAsk, ask{})
	if err != nil || st.Name != n.String() || st.Last+near < r.CommitIndex() || st.Size == 0 && m.cfg.Ledger.Head().Size > 0 {
		return
	}
	if err := r.AddVoter(s.ID, s.Address, 0, changeTime).Error(); err != nil {
		m.cfg.Log.Info("quorum: a keeper gets no vote yet", "keeper", n.id.Short(), "err", err)
		return
	}
	m.cfg.Log.Info("quorum: a keeper has caught up and votes", "keeper", n.id.Short())
}

// Add makes a keeper that the mesh file names a member. Only the leader can.
func (m *Member) Add(ctx context.Context, id record.NodeID) error {
	r, err := m.leading()
	if err != nil {
		return err
	}
	if _, ok := m.cfg.Mesh.Value.Keeper(id); !ok {
		return fmt.Errorf("%w: the mesh file does not name %s as a keeper", ErrMember, id.Short())
	}
	st, err := call[ask, state](ctx, m, id, forAsk, ask{})
	if err != nil {
		return fmt.Errorf("%w: keeper %s does not answer, start it first: %w", ErrMember, id.Short(), err)
	}
	n, err := parseName(st.Name)
	if err != nil || n.id != id {
		return fmt.Errorf("%w: keeper %s says that it is %.80q", ErrMember, id.Short(), st.Name)
	}
	return m.take(r, n)
}

// Remove ends a keeper's membership. Only the leader can; as many as must sign a tree
// head stay.
func (m *Member) Remove(_ context.Context, id record.NodeID) error {
	r, err := m.leading()
	if err != nil {
		return err
	}
	s, ok := lives(members(r), id)
	if !ok {
		return fmt.Errorf("%w: %s is no member", ErrMember, id.Short())
	}
	if left := len(voters(members(r))) - 1; s.Suffrage == raft.Voter && left < max(1, int(m.cfg.Mesh.Value.Quorum)) {
		return fmt.Errorf("%w: without %s %d keepers would vote, and %d must sign a tree head: add another first", ErrMember, id.Short(), left, m.cfg.Mesh.Value.Quorum)
	}
	return r.RemoveServer(s.ID, 0, changeTime).Error()
}

// A Status is what is known of one keeper of the mesh file.
type Status struct {
	ID     record.NodeID
	Member bool          // it gets every batch
	Votes  bool          // and counts
	Leads  bool          // and orders
	Up     bool          // it answers
	Size   uint64        // of its ledger, if it answers
	Ahead  time.Duration // of its clock before this keeper's, if it answers
}

// Members returns what this keeper knows of all keepers that the mesh file names.
func (m *Member) Members(ctx context.Context) []Status {
	var conf raft.Configuration
	if r := m.running(); r != nil {
		conf = members(r)
	}
	leader, _ := m.Leader()
	ctx, cancel := context.WithTimeout(ctx, upTime)
	defer cancel()
	all := make([]Status, len(m.cfg.Mesh.Value.Keepers))
	var wg sync.WaitGroup
	for i, k := range m.cfg.Mesh.Value.Keepers {
		s := &all[i]
		s.ID = k.Key.ID()
		server, ok := lives(conf, s.ID)
		s.Member, s.Votes, s.Leads = ok, ok && server.Suffrage == raft.Voter, s.ID == leader
		wg.Go(func() {
			st, err := m.stateOf(ctx, s.ID)
			if s.Up = err == nil; s.Up {
				s.Size, s.Ahead = st.Size, (st.Now - record.At(m.cfg.Now())).Duration()
			}
		})
	}
	wg.Wait()
	return all
}

// upTime is how long a keeper has to say that it is up.
const upTime = time.Second

// stateOf is what a keeper, this one or another, says of itself.
func (m *Member) stateOf(ctx context.Context, id record.NodeID) (state, error) {
	if id == m.id {
		return m.state(), nil
	}
	return call[ask, state](ctx, m, id, forAsk, ask{})
}
