package invariant

import (
	"iter"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/sim/trace"
)

// A Backend holds the volumes that PersistentVolumes refer to: those of a CSI driver, or of a
// plugin of the PersistentVolume controller. It may also have a method
// Files(handle string) []string, which returns the sorted paths of the files in a volume.
type Backend interface {
	// Driver returns the name of the driver or plugin.
	Driver() string
	// Volumes returns its volumes, by handle.
	Volumes() []Volume
	// Volume returns a volume, and whether it exists.
	Volume(handle string) (Volume, bool)
}

// A Volume is a volume of a backend.
type Volume struct {
	Handle   string   // of a plugin's volume: its path
	Name     string   // name with which it was requested
	Attached []string // node names, sorted; of a driver whose volumes are attached
	Bytes    int64
	FSBytes  int64 // size of its file system; 0: none or unknown
	// Attributes are its mutable parameters, as in a VolumeAttributesClass; nil: unknown.
	Attributes map[string]string
}

// Plugins whose volumes are directories, of a machine and of a server.
const (
	pluginHostPath = "kubernetes.io/host-path"
	pluginNFS      = "kubernetes.io/nfs"
)

// identityOf returns the driver or plugin of a PersistentVolume, and the volume's handle there.
// driver is "" for other sources.
func identityOf(v *corev1.PersistentVolume) (driver, handle string) {
	switch {
	case v.Spec.CSI != nil:
		return v.Spec.CSI.Driver, v.Spec.CSI.VolumeHandle
	case v.Spec.HostPath != nil:
		return pluginHostPath, v.Spec.HostPath.Path
	case v.Spec.NFS != nil:
		return pluginNFS, v.Spec.NFS.Server + ":" + v.Spec.NFS.Path
	default:
		return "", ""
	}
}

// handleKey returns the identity of the volume behind a PersistentVolume as one string; "" if there
// is none. For CSI drivers it is that of the records of driver calls: "driver/handle".
func handleKey(v *corev1.PersistentVolume) string {
	driver, handle := identityOf(v)
	if driver == "" {
		return ""
	}
	return driver + "/" + handle
}

// backends iterates over all known backends, that of the CSI driver first.
func (c *Checker) backends() iter.Seq[Backend] {
	return func(yield func(Backend) bool) {
		if c.Devices == nil || !yield(c.Devices) {
			return
		}
		for _, b := range c.Devices.Plugins() {
			if !yield(b) {
				return
			}
		}
	}
}

// backend returns the backend of a driver or plugin; nil if it is unknown.
func (c *Checker) backend(driver string) Backend {
	for b := range c.backends() {
		if b.Driver() == driver {
			return b
		}
	}
	return nil
}

// held returns the volume behind a PersistentVolume, and whether a known backend holds it.
func (c *Checker) held(v *corev1.PersistentVolume) (Volume, bool) {
	driver, handle := identityOf(v)
	b := c.backend(driver)
	if b == nil {
		return Volume{}, false
	}
	return b.Volume(handle)
}

func (c *Checker) holds(v *corev1.PersistentVolume) bool {
	_, ok := c.held(v)
	return ok
}

// A dataVerb is the effect of a driver call on a volume's data.
type dataVerb string

const (
	dataMade     dataVerb = "made"
	dataDeleted  dataVerb = "deleted"
	dataRecycled dataVerb = "recycled" // the content is removed, as for the next claim
)

// removesData reports whether the data is gone after the call.
func (v dataVerb) removesData() bool { return v == dataDeleted || v == dataRecycled }

// dataVerbs maps the calls that create or remove data to their effect.
var dataVerbs = map[string]dataVerb{
	"CreateVolume": dataMade, "DeleteVolume": dataDeleted, // of CSI drivers
	"Provision": dataMade, "Delete": dataDeleted, "Recycle": dataRecycled, // of plugins
}

// A dataCall is a call that creates or removes the data of a volume. Records of CSI drivers
// identify the volume by its handle or the requested name: "driver/handle". Those of plugins
// identify it by the existing or future PersistentVolume and have the volume's path, unless the
// call failed before it took effect.
type dataCall struct {
	verb     dataVerb // "": another call
	driver   string
	name     string // of a call that creates a volume: the requested name
	key      string // of others: the handleKey of the volume
	path     string // of a plugin's call
	ofPlugin bool
}

func dataCallOf(r trace.Record) dataCall {
	call := dataCall{verb: dataVerbs[r.Verb]}
	switch {
	case call.verb == "":
		return call
	case strings.HasSuffix(r.Verb, "Volume"):
		call.driver, call.name, _ = strings.Cut(r.Object, "/")
		call.key = r.Object
	default:
		i := strings.LastIndex(r.Object, "/")
		call.driver, call.name, call.ofPlugin = r.Object[:i], r.Object[i+1:], true
		call.path = deviceCallOf(r).path
		call.key = call.driver + "/" + call.path
	}
	return call
}
