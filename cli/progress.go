package cli

import (
	"fmt"
	"io"
	"sync"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// maxBars are drawn one a task; more tasks share one.
const maxBars = 16

// barSteps is how finely a bar is drawn.
const barSteps = 1000

// A screen draws how far a job is, for a person at a terminal; for anybody else it
// draws nothing. Close it. It is used by one goroutine.
type screen struct {
	t    terminal
	all  *mpb.Progress
	bars map[string]*bar
	off  bool // the module's own words have the terminal now
}

type bar struct {
	*mpb.Bar
	mu   sync.Mutex
	text string
}

func newScreen(t terminal) *screen { return &screen{t: t, bars: map[string]*bar{}, off: !t.live()} }

// close takes the bars away.
func (s *screen) close() {
	for _, b := range s.bars {
		b.Abort(true)
	}
	if s.all != nil {
		s.all.Wait()
	}
	s.all, s.bars = nil, map[string]*bar{}
}

// at sets the bar of that name; without a total it only says the text.
func (s *screen) at(name string, done, total uint64, text string) {
	if s.off {
		return
	}
	b := s.bars[name]
	if b == nil {
		b = s.add(name)
	}
	b.mu.Lock()
	b.text = text
	b.mu.Unlock()
	b.SetCurrent(int64(float64(min(done, total)) / float64(max(total, 1)) * barSteps))
}

func (s *screen) add(name string) *bar {
	if s.all == nil {
		s.all = mpb.New(mpb.WithOutput(s.t.err), mpb.WithWidth(24))
	}
	b := &bar{}
	style := mpb.BarStyle().Lbound(" ").Rbound(" ").Filler("█").Tip("█").Padding("░")
	// One step more than can be reached, since a full bar ends itself.
	b.Bar = s.all.New(barSteps+1, style, mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(fmt.Sprintf("%-9s", name))),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.text
		})))
	s.bars[name] = b
	return b
}

// done takes one bar away.
func (s *screen) done(name string) {
	if b := s.bars[name]; b != nil {
		b.Abort(true)
		b.Wait()
		delete(s.bars, name)
	}
}

// say prints a line above the bars.
func (s *screen) say(label, text string) {
	if !s.t.live() {
		return
	}
	t := s.t
	if s.all != nil {
		line := fmt.Sprintf("%s%s\n", t.faint(fmt.Sprintf("%-10s", label)), clean(text))
		io.WriteString(s.all, line)
		return
	}
	t.state(label, text)
}

// words returns a writer for what the module says to w. Where w is a terminal too,
// its whole lines go above the bars; half a line takes the terminal for good.
func (s *screen) words(w io.Writer) io.Writer { return speech{s, w} }

type speech struct {
	s *screen
	w io.Writer
}

func (v speech) Write(b []byte) (int, error) {
	if v.s.all == nil || !isTerminal(v.w) {
		return v.w.Write(b)
	}
	if len(b) > 0 && b[len(b)-1] == '\n' {
		return v.s.all.Write(b)
	}
	v.s.close()
	v.s.off = true
	return v.w.Write(b)
}
