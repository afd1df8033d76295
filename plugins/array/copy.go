package array

import (
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/plugins/nodefs"
)

// A content is what a new volume is created from.
type content struct {
	id        string // of a snapshot or a volume; "": the new volume is empty
	sizeBytes int64
	fsBytes   int64
	tree      *nodefs.Tree // nil: empty
}

// contentOf returns the content of a source, or NotFound. The caller holds a.mu.
func (a *Array) contentOf(source *csi.VolumeContentSource) (content, error) {
	switch {
	case source.GetSnapshot() != nil:
		s, err := a.findSnapshot(source.GetSnapshot().GetSnapshotId())
		if err != nil {
			return content{}, err
		}
		return content{s.id, s.sizeBytes, s.fsBytes, s.tree}, nil
	case source.GetVolume() != nil:
		v, err := a.find(source.GetVolume().GetVolumeId())
		if err != nil {
			return content{}, err
		}
		return content{v.id, v.sizeBytes, v.fsBytes, v.tree}, nil
	}
	return content{}, nil
}

// sizes returns the constraints on the size of a volume with this content.
func (c content) sizes(a *Array) csireq.Sizes {
	if c.id == "" {
		return csireq.Sizes{Default: volumeBytesDefault, Max: a.capacityBytes}
	}
	return csireq.Sizes{Default: c.sizeBytes, Min: c.sizeBytes, Max: a.capacityBytes}
}

// copyTree returns a tree with the content.
func (c content) copyTree() *nodefs.Tree {
	if c.tree == nil {
		return nodefs.NewTree()
	}
	return c.tree.Clone()[0]
}

// checkSource returns AlreadyExists if v was not created from the requested source.
func (v *volume) checkSource(source *csi.VolumeContentSource) error {
	if wanted := csireq.SourceID(source); wanted != v.source {
		return status.Errorf(codes.AlreadyExists,
			"volume %q exists with source %q, requested source is %q (empty: none)", v.name, v.source, wanted)
	}
	return nil
}

// contentSource returns what v was created from as CSI describes it; nil: it was empty.
func (v *volume) contentSource() *csi.VolumeContentSource {
	switch {
	case v.source == "":
		return nil
	case csireq.IsSnapshotID(v.source):
		return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: v.source},
		}}
	}
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: v.source},
	}}
}
