package keeper

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"idlemesh/ledger"
	"idlemesh/ledger/account"
	"idlemesh/ledger/record"
	"idlemesh/mesh/wire"
)

// TestRefusal: an author must tell a verdict on his entry from trouble in the store,
// after which he asks again.
func TestRefusal(t *testing.T) {
	for name, tc := range map[string]struct {
		err       error
		otherwise wire.Code
		want      wire.Code
	}{
		"a rule":           {account.ErrEntry, wire.Invalid, wire.Invalid},
		"another body":     {ledger.ErrConflict, wire.Invalid, wire.Invalid},
		"the disk":         {errors.New("input/output error"), wire.Internal, wire.Internal},
		"damage":           {ledger.ErrCorrupt, wire.Internal, wire.Internal},
		"poor":             {&account.OverdraftError{}, wire.Invalid, wire.Funds},
		"full":             {ledger.ErrFull, wire.Internal, wire.Funds},
		"not his":          {account.ErrAuthor, wire.Invalid, wire.Denied},
		"no such job":      {account.ErrUnknown, wire.Invalid, wire.NotFound},
		"a bad signature":  {record.ErrSignature, wire.Invalid, wire.Unverified},
		"closing":          {ledger.ErrClosed, wire.Internal, wire.Unavailable},
		"the caller's end": {context.Canceled, wire.Internal, wire.Unavailable},
	} {
		if got := refusal(fmt.Errorf("append: %w", tc.err), tc.otherwise); got.Code != tc.want {
			t.Errorf("%s: code %d, want %d", name, got.Code, tc.want)
		}
	}
}

func TestTooManyEntries(t *testing.T) {
	k := &Keeper{}
	_, err := k.append(t.Context(), wire.Caller{}, wire.AppendRequest{Entries: make([]record.Raw, maxEntries+1)})
	if !wire.Is(err, wire.Invalid) {
		t.Errorf("append: %v", err)
	}
}
