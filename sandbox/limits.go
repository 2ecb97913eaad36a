package sandbox

import "cmp"

// withDefaults fills what is zero.
func (l Limits) withDefaults() Limits {
	l.Memory = cmp.Or(l.Memory, 4<<30)
	l.Wall = cmp.Or(l.Wall, 3_600_000)
	l.Output = cmp.Or(l.Output, 1<<30)
	return l
}
