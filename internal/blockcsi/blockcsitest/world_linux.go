package blockcsitest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/plugins/nodefs"
)

const mebibyte = 1 << 20

// block names the cases that use block volumes.
const block = "block"

// Config describes the driver under test.
type Config struct {
	// Open returns a driver over a directory, as after a crash of an earlier one. It calls onStep,
	// if not nil, wherever the driver may be killed.
	Open func(dir string, onStep func(string)) (*blockcsi.Driver, error)
	// Stop releases what a driver from Open holds exclusively, before another is opened over the
	// same directory. It may be nil.
	Stop func(driver *blockcsi.Driver) error
	// Close removes everything that drivers from Open created in a directory.
	Close func(dir string) error
	// Nodes can use any volume. The last one is on another machine than the first if the driver
	// supports that. With one node, volumes do not move; they must keep their data until they are
	// used again.
	Nodes []string
	// Parameters are the class parameters of all volumes.
	Parameters map[string]string
	// Settings are settings to modify a volume with; none if the driver does not modify volumes.
	Settings map[string]string
	// CopiesInUse means that a block volume in use can be copied.
	CopiesInUse bool
	// DependentSnapshots means that a volume cannot be removed before its snapshots.
	DependentSnapshots bool
	// FSTypes are the file systems to test, and "block"; none means all.
	FSTypes []string
	// Cases are the names of the cases to run; none means all.
	Cases []string
	// Dir returns an empty directory for a test; nil means the test's own.
	Dir func(t testing.TB) string
}

// world is a driver with nodes on this machine, in one test.
type world struct {
	testing.TB
	Driver *blockcsi.Driver
	Base   string

	cfg   Config
	fs    map[string]*nodefs.Real
	nodes map[string]csi.NodeServer
}

// newWorld returns a world that is removed after the test. The test fails if anything remains.
func newWorld(t testing.TB, cfg Config) *world {
	t.Helper()
	base := ""
	if cfg.Dir == nil {
		base = t.TempDir()
	} else {
		base = cfg.Dir(t)
	}
	w := openWorld(t, cfg, base, nil)
	t.Cleanup(func() {
		var failed []error
		for _, fs := range w.fs {
			failed = append(failed, fs.UnmountAll())
		}
		w.stop()
		if err := errors.Join(append(failed, cfg.Close(w.Base))...); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return w
}

// openWorld returns a world over a directory.
func openWorld(t testing.TB, cfg Config, base string, onStep func(string)) *world {
	t.Helper()
	w := &world{TB: t, Base: base, cfg: cfg, fs: map[string]*nodefs.Real{}}
	for _, node := range cfg.Nodes {
		fs, err := nodefs.NewReal(filepath.Join(base, "node "+node))
		w.must(err)
		w.fs[node] = fs
	}
	w.start(onStep)
	return w
}

// stop stops the driver.
func (w *world) stop() {
	w.Helper()
	if w.Driver != nil && w.cfg.Stop != nil {
		if err := w.cfg.Stop(w.Driver); err != nil {
			w.Error(err)
		}
	}
	w.Driver = nil
}

// start creates the driver, as after a crash of an earlier one.
func (w *world) start(onStep func(string)) {
	w.Helper()
	w.stop()
	driver, err := w.cfg.Open(w.Base, onStep)
	w.must(err)
	w.Driver, w.nodes = driver, map[string]csi.NodeServer{}
	for node, fs := range w.fs {
		w.nodes[node] = driver.Node(node, fs)
	}
}

// must ends the test on an error.
func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// wantCode checks the code of an error.
func (w *world) wantCode(err error, want codes.Code) {
	w.Helper()
	if got := status.Code(err); got != want {
		w.Errorf("got %s (%v), want %s", got, err, want)
	}
}

// capability returns that of a volume with a file system, or of a block volume.
func capability(fsType string) *csi.VolumeCapability {
	all := &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType}},
	}
	if fsType == block {
		all.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	}
	return all
}

// volume is a volume of a test.
type volume struct {
	*world
	id, fsType string
	bytes      int64
	node       string // the node that uses it; "" if unused
}

// try creates a volume of a size (0 means any) from a source ("" means none).
func (w *world) try(name, fsType string, bytes int64, source string) (*volume, error) {
	request := &csi.CreateVolumeRequest{
		Name: name, VolumeCapabilities: []*csi.VolumeCapability{capability(fsType)}, Parameters: w.cfg.Parameters,
		CapacityRange: &csi.CapacityRange{RequiredBytes: bytes},
	}
	if source != "" {
		request.VolumeContentSource = contentSource(source)
	}
	response, err := w.Driver.Controller().CreateVolume(w.Context(), request)
	made := response.GetVolume()
	return &volume{world: w, id: made.GetVolumeId(), fsType: fsType, bytes: made.GetCapacityBytes()}, err
}

func contentSource(id string) *csi.VolumeContentSource {
	if id[0] == 's' {
		return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: id},
		}}
	}
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id},
	}}
}

func (w *world) create(name, fsType string, bytes int64, source string) *volume {
	w.Helper()
	v, err := w.try(name, fsType, bytes, source)
	w.must(err)
	return v
}

// trySnapshot creates a snapshot.
func (v *volume) trySnapshot(name string) (*csi.Snapshot, error) {
	response, err := v.Driver.Controller().CreateSnapshot(v.Context(), &csi.CreateSnapshotRequest{
		Name: name, SourceVolumeId: v.id,
	})
	return response.GetSnapshot(), err
}

func (v *volume) snapshot(name string) string {
	v.Helper()
	made, err := v.trySnapshot(name)
	v.must(err)
	return made.GetSnapshotId()
}

func (v *volume) staging() string { return filepath.Join(v.Base, "node "+v.node, "staging", v.id) }

// path returns the publish path.
func (v *volume) path() string { return filepath.Join(v.Base, "node "+v.node, "pods", v.id) }

// tryUse attaches, stages and publishes the volume on a node.
func (v *volume) tryUse(node string, readOnly bool) error {
	v.node = node
	wanted := capability(v.fsType)
	if readOnly {
		wanted.AccessMode.Mode = csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY
	}
	attached, err := v.Driver.Controller().ControllerPublishVolume(v.Context(), &csi.ControllerPublishVolumeRequest{
		VolumeId: v.id, NodeId: node, VolumeCapability: wanted, Readonly: readOnly,
	})
	if err != nil {
		return err
	}
	_, err = v.nodes[node].NodeStageVolume(v.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: v.id, StagingTargetPath: v.staging(), VolumeCapability: wanted,
		PublishContext: attached.GetPublishContext(),
	})
	if err != nil {
		return err
	}
	v.must(os.MkdirAll(filepath.Dir(v.path()), 0o750))
	_, err = v.nodes[node].NodePublishVolume(v.Context(), &csi.NodePublishVolumeRequest{
		VolumeId: v.id, StagingTargetPath: v.staging(), TargetPath: v.path(), VolumeCapability: wanted,
		Readonly: readOnly,
	})
	return err
}

func (v *volume) use(node string) {
	v.Helper()
	v.must(v.tryUse(node, false))
}

// stopUse undoes use.
func (v *volume) stopUse() {
	v.Helper()
	node := v.nodes[v.node]
	_, err := node.NodeUnpublishVolume(v.Context(), &csi.NodeUnpublishVolumeRequest{
		VolumeId: v.id, TargetPath: v.path(),
	})
	v.must(err)
	_, err = node.NodeUnstageVolume(v.Context(), &csi.NodeUnstageVolumeRequest{
		VolumeId: v.id, StagingTargetPath: v.staging(),
	})
	v.must(err)
	_, err = v.Driver.Controller().ControllerUnpublishVolume(v.Context(),
		&csi.ControllerUnpublishVolumeRequest{VolumeId: v.id, NodeId: v.node})
	v.must(err)
	v.node = ""
}

// expand grows the volume.
func (v *volume) expand(bytes int64) {
	v.Helper()
	response, err := v.Driver.Controller().ControllerExpandVolume(v.Context(), &csi.ControllerExpandVolumeRequest{
		VolumeId: v.id, CapacityRange: &csi.CapacityRange{RequiredBytes: bytes}, VolumeCapability: capability(v.fsType),
	})
	v.must(err)
	v.bytes = response.GetCapacityBytes()
}

// expandOnNode grows its file system on the node. If it cannot grow while mounted, the volume is
// used again.
func (v *volume) expandOnNode() {
	v.Helper()
	_, err := v.nodes[v.node].NodeExpandVolume(v.Context(), &csi.NodeExpandVolumeRequest{
		VolumeId: v.id, VolumePath: v.path(), VolumeCapability: capability(v.fsType),
	})
	if status.Code(err) == codes.FailedPrecondition {
		node := v.node
		v.stopUse()
		v.use(node)
		return
	}
	v.must(err)
}

// size returns the capacity of the volume where it is used.
func (v *volume) size() int64 {
	v.Helper()
	stats, err := v.nodes[v.node].NodeGetVolumeStats(v.Context(), &csi.NodeGetVolumeStatsRequest{
		VolumeId: v.id, VolumePath: v.path(),
	})
	v.must(err)
	return stats.GetUsage()[0].GetTotal()
}

// delete removes a volume or a snapshot.
func (w *world) delete(id string) {
	w.Helper()
	if id[0] == 's' {
		_, err := w.Driver.Controller().DeleteSnapshot(w.Context(), &csi.DeleteSnapshotRequest{SnapshotId: id})
		w.must(err)
		return
	}
	_, err := w.Driver.Controller().DeleteVolume(w.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	w.must(err)
}

// The written parts of a block volume.
const (
	patternParts = 4
	patternBytes = mebibyte
)

// noiseStream returns a pseudorandom stream of bytes for a seed.
func noiseStream(seed uint64) cipher.Stream {
	var key [aes.BlockSize]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key length is valid
	}
	return cipher.NewCTR(block, make([]byte, aes.BlockSize))
}

// write writes data that depends on a seed. On a file system it writes files, some of which replace
// others. On a device it writes distant parts.
func (v *volume) write(seed uint64) {
	v.Helper()
	withoutFork(func() { v.writeFiles(seed) })
}

func (v *volume) writeFiles(seed uint64) {
	v.Helper()
	noise := noiseStream(seed)
	content := make([]byte, patternBytes)
	if v.fsType == block {
		device, err := os.OpenFile(v.path(), os.O_WRONLY, 0)
		v.must(err)
		for part := range int64(patternParts) {
			noise.XORKeyStream(content, content)
			_, err := device.WriteAt(content, part*3*mebibyte)
			v.must(err)
		}
		v.must(errors.Join(device.Sync(), device.Close()))
		return
	}
	for part := range patternParts {
		noise.XORKeyStream(content, content)
		dir := filepath.Join(v.path(), fmt.Sprintf("dir-%d", part%2))
		v.must(os.MkdirAll(dir, 0o750))
		v.must(os.WriteFile(filepath.Join(dir, fmt.Sprintf("file-%d", part)), content[:len(content)-part*12345], 0o640))
	}
	v.must(os.WriteFile(filepath.Join(v.path(), "seed"), fmt.Appendf(nil, "%d", seed), 0o640))
}

// hash returns the hash of the content of a volume in use.
func (v *volume) hash() (sum string) {
	v.Helper()
	withoutFork(func() { sum = v.hashFiles() })
	return sum
}

func (v *volume) hashFiles() string {
	v.Helper()
	sum := sha256.New()
	if v.fsType == block {
		device, err := os.Open(v.path())
		v.must(err)
		defer device.Close()
		_, err = io.Copy(sum, io.NewSectionReader(device, 0, patternParts*3*mebibyte))
		v.must(err)
		return fmt.Sprintf("%x", sum.Sum(nil))
	}
	v.must(filepath.WalkDir(v.path(), func(name string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.Name() == "lost+found" {
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		rest, _ := filepath.Rel(v.path(), name)
		fmt.Fprintf(sum, "%s %d\n", rest, len(content))
		sum.Write(content)
		return err
	}))
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// wantHash checks the hash of the volume's content.
func (v *volume) wantHash(want, not string) {
	v.Helper()
	switch got := v.hash(); {
	case got != want:
		v.Errorf("%s holds %s, want %s", v.id, got[:8], want[:8])
	case got == not:
		v.Errorf("%s holds %s, which is wrong", v.id, got[:8])
	}
}
