package invariant

import (
	"iter"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/sim/trace"
)

// Backend holds the volumes that PersistentVolumes stand for: that of a CSI driver, or a plugin of the PersistentVolume
// controller.
type Backend interface {
	// Driver is the name of the driver, or of the plugin.
	Driver() string
	// Volumes are those it holds, by handle.
	Volumes() []Volume
	// Volume is one of them, and whether it is there.
	Volume(handle string) (Volume, bool)
}

// Volume is a volume of a back end.
type Volume struct {
	Handle   string   // of a plugin's volume: its path
	Name     string   // it was asked for with
	Attached []string // node names, sorted
	Bytes    int64
	FSBytes  int64 // of the file system in it; 0: it has none, or nobody knows
}

// Plugins whose volumes are directories, of a machine and of a server.
const (
	pluginHostPath = "kubernetes.io/host-path"
	pluginNFS      = "kubernetes.io/nfs"
)

// identityOf says what a PersistentVolume stands for: a volume of a CSI driver, or of a plugin. driver is "" for other sources.
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

// handleKey is the identity of the volume behind a PersistentVolume in one word, for CSI drivers as the records of driver
// calls name it: "driver/handle"; "" where there is none.
func handleKey(v *corev1.PersistentVolume) string {
	driver, handle := identityOf(v)
	if driver == "" {
		return ""
	}
	return driver + "/" + handle
}

// backends are all that are known, that of the CSI driver first.
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

// backend is the one of a driver or plugin; nil where it is not known.
func (c *Checker) backend(driver string) Backend {
	for b := range c.backends() {
		if b.Driver() == driver {
			return b
		}
	}
	return nil
}

// held is the volume behind a PersistentVolume, and whether a back end is known to hold it.
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

// What becomes of a volume's data by a driver call.
type dataVerb string

const (
	dataMade     dataVerb = "made"
	dataDeleted  dataVerb = "deleted"
	dataRecycled dataVerb = "recycled" // what is in the volume is removed, as for its next claim
)

// removesData tells whether the data is there no more.
func (v dataVerb) removesData() bool { return v == dataDeleted || v == dataRecycled }

// dataVerbs are the calls by which data comes and goes.
var dataVerbs = map[string]dataVerb{
	"CreateVolume": dataMade, "DeleteVolume": dataDeleted, // of CSI drivers
	"Provision": dataMade, "Delete": dataDeleted, "Recycle": dataRecycled, // of plugins
}

// dataCall is a call by which the data of a volume comes or goes. Records of CSI drivers name the volume by its handle, or by
// what it is asked for with: "driver/handle". Those of plugins name the PersistentVolume, also the one to be, and tell the
// volume's path, unless the call failed before it took effect.
type dataCall struct {
	verb     dataVerb // "": it is another call
	driver   string
	name     string // of one that makes a volume: what it is asked for with
	key      string // of others: the handleKey of the volume
	path     string // of one of a plugin
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
