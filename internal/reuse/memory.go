package reuse

import "reflect"

// A Memory has the values of one world, and those of earlier ones that it has not handed out again. It
// is for one goroutine. The zero value is empty. A nil Memory keeps nothing.
type Memory struct {
	values map[reflect.Type]rewinder
}

// keptMax bounds the values of a type that are kept for the next world.
const keptMax = 4096

// mapMax is the size up to which a map is kept: emptying a larger one costs more than a new one.
const mapMax = 64

type rewinder interface{ rewind() }

// A series has the values of a type in the order in which a world gets them.
type series[T any] struct {
	all  []*T
	next int
}

func (s *series[T]) rewind() { s.next = 0 }

// Rewind says that the world has ended. None of its values may be used any more.
func (m *Memory) Rewind() {
	for _, s := range m.values {
		s.rewind()
	}
}

// Get returns the next value of a type. It is zero, or, if used is true, as an earlier world left it.
func Get[T any](m *Memory) (value *T, used bool) {
	if m == nil {
		return new(T), false
	}
	key := reflect.TypeFor[T]()
	s, _ := m.values[key].(*series[T])
	if s == nil {
		if m.values == nil {
			m.values = map[reflect.Type]rewinder{}
		}
		s = &series[T]{}
		m.values[key] = s
	}
	if s.next < len(s.all) {
		s.next++
		return s.all[s.next-1], true
	}
	value = new(T)
	if len(s.all) < keptMax {
		s.all = append(s.all, value)
		s.next++
	}
	return value, false
}

// New returns the next value of a type, which is zero.
func New[T any](m *Memory) *T {
	value, used := Get[T](m)
	if used {
		var zero T
		*value = zero
	}
	return value
}

// kept holds a map.
type kept[K comparable, V any] struct{ entries map[K]V }

// Map returns the next map of a type, which is empty.
func Map[K comparable, V any](m *Memory) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	holder, _ := Get[kept[K, V]](m)
	if holder.entries == nil || len(holder.entries) > mapMax {
		holder.entries = map[K]V{}
	}
	clear(holder.entries)
	return holder.entries
}
