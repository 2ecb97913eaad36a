package identity

import "container/list"

// A cache holds the values used last. Its owner locks it.
type cache[K comparable, V any] struct {
	max   int
	items map[K]*list.Element
	order *list.List // the one used last is in front
}

type item[K comparable, V any] struct {
	key K
	val V
}

func newCache[K comparable, V any](max int) cache[K, V] {
	return cache[K, V]{max: max, items: map[K]*list.Element{}, order: list.New()}
}

func (c *cache[K, V]) get(k K) (v V, ok bool) {
	e, ok := c.items[k]
	if !ok {
		return v, false
	}
	c.order.MoveToFront(e)
	return e.Value.(item[K, V]).val, true
}

func (c *cache[K, V]) put(k K, v V) {
	if e, ok := c.items[k]; ok {
		e.Value = item[K, V]{k, v}
		c.order.MoveToFront(e)
		return
	}
	if c.order.Len() == c.max {
		old := c.order.Back()
		c.order.Remove(old)
		delete(c.items, old.Value.(item[K, V]).key)
	}
	c.items[k] = c.order.PushFront(item[K, V]{k, v})
}
