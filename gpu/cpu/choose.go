package cpu

import (
	"cmp"
	"slices"
)

func (o *call) argmax(i int) { ints(o.dst)[i] = int32(o.largest(frow(o.a, i, int(o.c.N)))) }

// largest returns the lowest index of the largest element; 0 if none is a number.
func largest(v []float32) int {
	best := -1
	for i, x := range v {
		if x == x && (best < 0 || x > v[best]) {
			best = i
		}
	}
	return max(best, 0)
}

// topk keeps the k best seen so far in a heap with the worst on top.
func (o *call) topk(i int) {
	n, k := int(o.c.N), int(o.c.K)
	a := frow(o.a, i, n)
	heap := ints(row(o.d, i, k))
	for j := range heap {
		heap[j] = int32(j)
	}
	for j := k/2 - 1; j >= 0; j-- {
		sift(a, heap, j)
	}
	for j := k; j < n; j++ {
		if better(a, int32(j), heap[0]) {
			heap[0] = int32(j)
			sift(a, heap, 0)
		}
	}
	slices.SortFunc(heap, func(x, y int32) int { return rank(a, x, y) })
	for j, id := range heap {
		row(o.dst, i, k)[j] = row(o.a, i, n)[id]
	}
}

// rank orders elements largest first, equal ones by index, NaN last.
func rank(v []float32, x, y int32) int {
	if c := cmp.Compare(v[y], v[x]); c != 0 {
		return c
	}
	return cmp.Compare(x, y)
}

func better(v []float32, x, y int32) bool { return rank(v, x, y) < 0 }

func sift(v []float32, heap []int32, i int) {
	for {
		worst := 2*i + 1
		if worst >= len(heap) {
			return
		}
		if worst+1 < len(heap) && better(v, heap[worst], heap[worst+1]) {
			worst++
		}
		if better(v, heap[worst], heap[i]) {
			return
		}
		heap[i], heap[worst] = heap[worst], heap[i]
		i = worst
	}
}

func (o *call) sample(i int) {
	n := int(o.c.N)
	a, temperature := frow(o.a, i, n), o.param(4)
	best := o.largest(a)
	if !(temperature > 0) {
		ints(o.dst)[i] = int32(best)
		return
	}
	p := o.c.Params
	seed := [2]uint32{p[0], p[1]}
	counter := (uint64(p[2]) | uint64(p[3])<<32) + uint64(i)
	word := philox([4]uint32{uint32(counter), uint32(counter >> 32)}, seed)[0]
	w := weights(a, a[best], temperature)
	ints(o.dst)[i] = int32(draw(a, w, int(o.c.K), o.param(5), float64(word>>8)/(1<<24)))
}

func weights(a []float32, m, temperature float32) []float32 {
	w := make([]float32, len(a))
	for j, x := range a {
		switch {
		case x == m:
			w[j] = 1
		case x == x:
			w[j] = exp((x - m) / temperature)
		}
	}
	return w
}

// draw picks an index by the point u in [0, 1) of the running sum of w, the weights of
// the row a.
func draw(a, w []float32, k int, topp float32, u float64) int {
	order := make([]int32, len(w))
	for i := range order {
		order[i] = int32(i)
	}
	if nucleus := topp > 0 && topp < 1; nucleus || k > 0 {
		slices.SortFunc(order, func(x, y int32) int { return rank(a, x, y) })
		if k > 0 {
			order = order[:k]
		}
		if nucleus {
			order = prefix(w, order, float64(topp)*weight(w, order))
		}
	}
	point, run, last := u*weight(w, order), 0.0, 0
	for _, i := range order {
		if w[i] > 0 {
			last = int(i)
		}
		if run += float64(w[i]); run > point {
			break
		}
	}
	return last
}

// prefix returns the shortest beginning of order that weighs at least enough.
func prefix(w []float32, order []int32, enough float64) []int32 {
	run := 0.0
	for i, id := range order {
		if run += float64(w[id]); run >= enough {
			return order[:i+1]
		}
	}
	return order
}

func weight(w []float32, order []int32) float64 {
	sum := 0.0
	for _, i := range order {
		sum += float64(w[i])
	}
	return sum
}

// philox is Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1,
// 2, 3".
func philox(ctr [4]uint32, key [2]uint32) [4]uint32 {
	for range 10 {
		x, y := uint64(ctr[0])*0xD2511F53, uint64(ctr[2])*0xCD9E8D57
		ctr = [4]uint32{uint32(y>>32) ^ ctr[1] ^ key[0], uint32(y), uint32(x>>32) ^ ctr[3] ^ key[1], uint32(x)}
		key[0] += 0x9E3779B9
		key[1] += 0xBB67AE85
	}
	return ctr
}
