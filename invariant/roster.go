package invariant

// A roster lists subscribers by key. There are few keys, so it is searched.
type roster[K comparable, T any] []entry[K, T]

type entry[K comparable, T any] struct {
	key   K
	count int
	list  []T
}

// find returns the entry of a key, nil if there is none.
func (r roster[K, T]) find(key K) *entry[K, T] {
	for i := range r {
		if r[i].key == key {
			return &r[i]
		}
	}
	return nil
}

// of returns the subscribers of a key, in the order in which they were added.
func (r roster[K, T]) of(key K) []T {
	if e := r.find(key); e != nil {
		return e.list
	}
	return nil
}

// announce says that a subscriber of a key will be added.
func (r *roster[K, T]) announce(key K) {
	e := r.find(key)
	if e == nil {
		*r = append(*r, entry[K, T]{key: key})
		e = &(*r)[len(*r)-1]
	}
	e.count++
}

// allocate makes room for the announced subscribers.
func (r roster[K, T]) allocate() {
	sum := 0
	for i := range r {
		sum += r[i].count
	}
	room := make([]T, sum)
	for i := range r {
		r[i].list, room = room[:0:r[i].count], room[r[i].count:]
	}
}

// add adds an announced subscriber.
func (r roster[K, T]) add(key K, subscriber T) {
	e := r.find(key)
	e.list = append(e.list, subscriber)
}

// reset empties a roster. Lists that are in use stay as they are.
func (r *roster[K, T]) reset() {
	clear(*r)
	*r = (*r)[:0]
}
