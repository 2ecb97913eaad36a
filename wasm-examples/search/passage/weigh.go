package passage

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// weight is what a word that a passage has n times counts for there: the rarer, the
// more, and more of the same ever less.
func (x *Index) weight(t term) float64 {
	const saturation = 1.2
	spread, n := float64(x.spread[t.feature]), float64(t.n)
	rarity := math.Log(1 + (float64(len(x.passages))-spread+0.5)/(spread+0.5))
	return rarity * n * (saturation + 1) / (n + saturation)
}

// weigh sets each passage's scale, by which its vector is multiplied. A long passage
// has more words to match by chance, a short one weighs each too much: half of the
// length counts, the other half is everyone's average.
func (x *Index) weigh() {
	x.scales = make([]float32, len(x.passages))
	average := 0.0
	for i := range x.passages {
		sum := 0.0
		for _, t := range x.of(i) {
			w := x.weight(t)
			sum += w * w
		}
		x.scales[i] = float32(math.Sqrt(sum))
		average += math.Sqrt(sum) / float64(len(x.passages))
	}
	for i, length := range x.scales {
		x.scales[i] = float32(2 / (float64(length) + average))
	}
}

// of returns the terms of passage i.
func (x *Index) of(i int) []term {
	first := 0
	if i > 0 {
		first = x.ends[i-1]
	}
	return x.terms[first:x.ends[i]]
}

// A question is what is asked for, word by word, with weights that make a vector of
// length 1.
type question struct {
	weight map[feature]float64
	asked  map[feature]bool // those that stand in it as they are
}

// question leaves out the words that only ask. Neighbours count as one word too, by half:
// whoever asks about a time out also means a timeout.
func (x *Index) question(text string) question {
	q, asking := question{map[feature]float64{}, map[feature]bool{}}, map[feature]bool{}
	words([]byte(askingWords), func(f feature) { asking[f] = true })
	take := func(f feature, share float64) {
		if q.weight[f] == 0 && !asking[f] && x.spread[f] > 0 {
			q.weight[f] = share * x.weight(term{f, 1})
		}
	}
	words([]byte(text), func(f feature) { take(f, 1) })
	for f := range q.weight {
		q.asked[f] = true
	}
	fields := strings.Fields(text)
	for i := range len(fields) - 1 {
		words([]byte(fields[i]+fields[i+1]), func(f feature) { take(f, 0.5) })
	}
	sum := 0.0
	for _, w := range q.weight {
		sum += w * w
	}
	for f := range q.weight {
		q.weight[f] /= math.Sqrt(sum)
	}
	return q
}

const askingWords = "how what why when where which who whose whom does do did is are was were be been being can could " +
	"should would will may might must has have had an the in of on at to and or not for from by with as it its this that these " +
	"those there then than if so but about into between me my we you your they them their"

// rank puts candidates in order by their words themselves, as vectors mix words up,
// and keeps the best k that have any. How many of the words a passage has counts as
// much as how rare they are, and a test says less than what it tests.
func (x *Index) rank(q question, candidates []int32, k int) []Hit {
	const test = 0.7
	var hits []Hit
	for _, id := range candidates {
		near, found := 0.0, 0
		for _, t := range x.of(int(id)) {
			if w := q.weight[t.feature]; w > 0 {
				near += w * x.weight(t) * float64(x.scales[id])
				if q.asked[t.feature] {
					found++
				}
			}
		}
		if near == 0 {
			continue
		}
		near *= float64(1+found) / float64(1+len(q.asked))
		if strings.Contains(x.passages[id].File, "test") {
			near *= test
		}
		hits = append(hits, Hit{x.passages[id], near})
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits[:min(k, len(hits))]
}
