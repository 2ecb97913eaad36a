package cli

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"idlemesh/ledger/record"
)

// bill says on stderr what a job came to: the price and how to check it always, the
// rest to a person.
func (t terminal) bill(m record.Mesh, o outcome, dir string, again bool) {
	id := o.info.Job.JobID()
	t.hint("done", o.doneText())
	if n, bytes := o.outputs(); n > 0 && dir != "" {
		t.hint("outputs", fmt.Sprintf("%s · %d %s, %s · hashes match", dir, n, plural(n, "file"), size(bytes)))
	} else if n > 0 {
		t.hint("outputs", fmt.Sprintf("%d %s, %s · fetch them with: meshctl job result %s --output-dir DIR", n, plural(n, "file"), size(bytes), id))
	}
	t.state("bill", o.billText())
	x, ok := o.last()
	if !ok {
		return
	}
	t.hint("trust", trustText(o))
	proof := fmt.Sprintf("entry %d under tree head %d · %d of %d keepers signed", x.Entry, x.head, m.Quorum, len(m.Keepers))
	check := fmt.Sprintf("meshctl ledger verify, or one proof: meshctl ledger prove %d --out proof.tlog", x.Entry)
	if dir != "" {
		file := filepath.Join(o.folder(dir, x), proofName)
		proof += " · " + file
		check = "meshctl ledger verify " + file
	}
	t.state("proof", proof)
	t.state("check", check)
	if dir != "" && again {
		t.hint("again", "meshctl submit --job "+filepath.Join(dir, jobFileName))
	}
}

// last is the task whose entry in the log is the newest.
func (o outcome) last() (last taskOutcome, ok bool) {
	for _, x := range o.tasks {
		if x.Receipt != nil && (!ok || x.Entry > last.Entry) {
			last, ok = x, true
		}
	}
	return last, ok
}

func (o outcome) doneText() string {
	took := o.info.Ended - o.info.Created
	if o.info.Terms.Shards == 1 {
		return fmt.Sprintf("%s in %s", o.state(), span(took))
	}
	return fmt.Sprintf("%s: %d of %d tasks in %s", o.state(), o.info.Done, o.info.Terms.Shards, span(took))
}

func (o outcome) outputs() (n int, bytes uint64) {
	for _, x := range o.tasks {
		for _, out := range x.manifest.Outputs {
			n, bytes = n+1, bytes+out.Blob.Size
		}
	}
	return n, bytes
}

// billText is the price and what it is made of.
func (o outcome) billText() string {
	var (
		work  record.Work
		meter = map[string]bool{}
		where []string
	)
	low, high := record.Amount(0), record.Amount(0)
	for _, x := range o.tasks {
		if x.Receipt == nil {
			continue
		}
		r := x.Receipt.Value
		if len(where) == 0 || x.Rate < low {
			low = x.Rate
		}
		high = max(high, x.Rate)
		work += r.Usage.Work
		meter[r.Usage.Meter.String()] = true
		if s := x.Receipt.By().Short() + " " + deviceText(r.Device); !slices.Contains(where, s) {
			where = append(where, s)
		}
	}
	if len(where) == 0 {
		return fmt.Sprintf("%s cr · nothing ran · refunded %s", credits(o.spent()), credits(o.refund()))
	}
	rate := credits(low)
	if high != low {
		rate += " to " + credits(high)
	}
	if len(where) > 3 {
		where = append(where[:3], fmt.Sprintf("%d more", len(where)-3))
	}
	return fmt.Sprintf("%s cr for %s at %s cr/GPU-h (work by %s) · refunded %s · %s",
		credits(o.spent()), workText(work), rate, strings.Join(slices.Sorted(maps.Keys(meter)), " and "), credits(o.refund()), strings.Join(where, ", "))
}

// workText renders work as time of the reference GPU.
func workText(w record.Work) string {
	hours := float64(w) / 3.6e12
	switch {
	case hours >= 0.01:
		return fmt.Sprintf("%.2f GPU-h", hours)
	case w >= 1e9:
		return fmt.Sprintf("%.1f GPU-s", float64(w)/1e9)
	}
	return fmt.Sprintf("%.3f GPU-ms", float64(w)/1e6)
}

func trustText(o outcome) string {
	n, again := 0, 0
	for _, x := range o.tasks {
		if x.Receipt != nil {
			n++
			again += int(x.Receipt.Value.Attempt) - 1
		}
	}
	s := "receipt signed by the provider"
	if n != 1 {
		s = fmt.Sprintf("%d receipts signed by their providers", n)
	}
	if again > 0 {
		s += fmt.Sprintf(" · %d %s after a node was lost", again, plural(again, "new attempt"))
	}
	return s
}
