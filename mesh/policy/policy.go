// Package policy is what an owner sells, when, for how much and to whom:
// policy.yaml and the rules that follow from it.
//
// It is pure: time is an argument. The calendar, with its zones and daylight saving,
// ends here; adverts carry concrete windows.
package policy

import (
	"errors"
	"fmt"
	"slices"
	"time"
	_ "time/tzdata" // a machine without zone files must not sell at other hours

	"idlemesh/ledger/record"
)

// HandBack is how soon an owner gets his device back where his policy does not say.
const HandBack record.Millis = 5000

// A Policy is what policy.yaml says. The zero value sells everything, always, from
// nothing.
type Policy struct {
	Floor     record.Amount   // per hour of the device
	Region    string          // claimed; empty is none
	Zone      *time.Location  // of Windows; nil means UTC
	Windows   []Weekly        // when it sells; none means always
	Tiers     []record.Tier   // that it sells; none means all
	Tenants   []record.NodeID // that it serves; none means all
	Slots     uint32          // tasks at once; zero leaves it to the node
	HandBack  record.Millis   // the owner has his device back so soon; zero means 5 s
	MinWindow record.Millis   // shorter rests of a window are not sold
	Presence  Presence        // what takes the device back
}

// A Weekly is a window of every week in wall-clock time.
type Weekly struct {
	Days  [7]bool // on which it starts, Sunday first
	From  int     // minute of the day, 0 to 1439
	Until int     // minute of the day, 1 to 1440; not after From means of the next day
}

// ErrRefused is in every error of Admit.
var ErrRefused = errors.New("the owner's policy refuses")

// Admit returns nil when the owner runs a job of tenant with those terms at now, and
// the reason otherwise.
func (p Policy) Admit(tenant record.NodeID, terms record.Job, now record.Millis) error {
	switch {
	case len(p.Tenants) > 0 && !slices.Contains(p.Tenants, tenant):
		return fmt.Errorf("%w: tenant %s is not on its list", ErrRefused, tenant.Short())
	case !slices.Contains(p.Sells(), terms.Tier):
		return fmt.Errorf("%w: it does not sell tier %s", ErrRefused, terms.Tier)
	case len(p.Open(now, now+max(p.MinWindow, 1))) == 0:
		return fmt.Errorf("%w: no window is open now", ErrRefused)
	}
	return nil
}

// Sells returns the tiers that the owner sells.
func (p Policy) Sells() []record.Tier {
	if len(p.Tiers) > 0 {
		return p.Tiers
	}
	return []record.Tier{record.Bronze, record.Silver, record.Gold}
}
