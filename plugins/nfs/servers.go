package nfs

import (
	"path"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volsim/volsim/plugins/hostpath"
)

// Servers are the simulated NFS servers of a world. A server of any name answers and exports every
// path. All methods may be called concurrently.
type Servers struct {
	machine hostpath.Machine

	mu   sync.Mutex
	down sets.Set[string] // names; guarded by mu
}

// NewServers returns servers that export directories of a machine: PATH of SERVER is /SERVER/PATH.
// The disk must be of the same implementation as those of the nodes. A missing directory is created
// when it is mounted.
func NewServers(machine hostpath.Machine) *Servers {
	return &Servers{machine: machine, down: sets.New[string]()}
}

// Machine returns the machine whose directories are exported.
func (s *Servers) Machine() hostpath.Machine { return s.machine }

// Stop makes a server unreachable until Start. Mounting from it fails after two minutes, and an
// unmount takes one minute. The files of mounted volumes stay accessible.
func (s *Servers) Stop(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down.Insert(server)
}

// Start makes a server reachable again.
func (s *Servers) Start(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down.Delete(server)
}

// Stopped returns the names of the unreachable servers, sorted.
func (s *Servers) Stopped() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sets.List(s.down)
}

func (s *Servers) anyStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.down) > 0
}

// stopped reports whether the server of a mount is unreachable. source is SERVER:PATH.
func (s *Servers) stopped(source string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for server := range s.down {
		if strings.HasPrefix(source, server+":") || strings.HasPrefix(source, "["+server+"]:") {
			return true
		}
	}
	return false
}

// dir returns the directory of an export.
func (s *Servers) dir(source *corev1.NFSVolumeSource) string {
	return s.machine.Path(path.Join("/", source.Server, source.Path))
}
