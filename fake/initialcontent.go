package fake

import (
	"slices"
	"time"

	"github.com/volsim/volsim/internal/reuse"
)

// A base is the content of a server that has just been created. The next server of the same
// configuration begins with it: stored objects and events are immutable, and what a server adds goes
// into memory of its own.
type base struct {
	of     baseConfig
	tables []baseTable // those with content
	// revision, uids, names and addresses are the counters of Server.
	revision               int64
	uids, names, addresses uint64
}

// baseConfig is what the content depends on.
type baseConfig struct {
	identity      uint64
	rootCA        string
	skipBootstrap bool
	created       int64 // the time
}

// A baseTable is the content of a resource.
type baseTable struct {
	row     int // in the catalog
	objects objectMap
	events  []event
	window  *window
	bytes   int
}

// baseOf returns the base of a configuration; nil: its servers share none. It is empty if it has not
// been stored yet.
func baseOf(cfg Config, created time.Time) *base {
	if cfg.Reuse == nil || cfg.RBAC || cfg.TrackManagedFields || len(cfg.Namespaces) > 0 ||
		cfg.HistoryEvents|cfg.HistoryBytes != 0 || cfg.HistoryAge != 0 {
		return nil
	}
	of := baseConfig{cfg.Identity, cfg.RootCA, cfg.SkipBootstrap, created.UnixNano()}
	b, _ := reuse.Get[base](cfg.Reuse)
	if b.of != of {
		*b = base{of: of}
	}
	return b
}

// restore gives a new server the content of a base, and reports whether it has one.
func (b *base) restore(s *Server) bool {
	if b == nil || b.tables == nil {
		return false
	}
	rows := s.catalog.Load().rows
	for i := range b.tables {
		from := &b.tables[i]
		t := &rows[from.row]
		t.objects = *from.objects.Copy()
		t.log.events, t.log.bytes = from.events, from.bytes
		t.log.window.Store(from.window)
		t.log.end.Store(int64(len(from.events)))
	}
	s.revision, s.uids, s.names, s.addresses = b.revision, b.uids, b.names, b.addresses
	return true
}

// store keeps the content of a new server; b may be nil.
func (b *base) store(s *Server) {
	if b == nil {
		return
	}
	rows := s.catalog.Load().rows
	for i := range rows {
		t := &rows[i]
		if len(t.log.events) == 0 {
			continue
		}
		// Without room, the next append moves the log to memory of the server that appends.
		t.log.events = slices.Clip(t.log.events)
		t.log.publish()
		b.tables = append(b.tables, baseTable{
			row: i, objects: *t.objects.Copy(), events: t.log.events, window: t.log.window.Load(), bytes: t.log.bytes,
		})
	}
	b.revision, b.uids, b.names, b.addresses = s.revision, s.uids, s.names, s.addresses
}
