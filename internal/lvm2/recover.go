package lvm2

import (
	"context"
	"slices"
	"strings"

	"github.com/volsim/volsim/internal/blockdev"
)

// replacesTag precedes the volume's name in the tag of a relocated copy. With this tag the copy is
// the volume.
const replacesTag = "volsim.replaces="

// recover completes what a killed process or a failed command left unfinished. It renames relocated
// volumes. In a process that has changed nothing yet, it also removes unfinished volumes. The
// caller holds the lock of the metadata.
func (g *VolumeGroup) recover(ctx context.Context) error {
	report, err := g.Report(ctx)
	if err != nil {
		return err
	}
	for _, volume := range report.LogicalVolumes {
		if name, ok := volume.tagValue(replacesTag); ok {
			if err := g.replace(ctx, report, volume.Name, name); err != nil {
				return err
			}
		} else if g.unrecovered && volume.HasTags(unfinishedTag) {
			if err := g.undo(ctx, report, volume); err != nil {
				return err
			}
		}
	}
	if g.unrecovered {
		if report, err = g.Report(ctx); err == nil {
			err = g.system.activator.finishRemovals(report)
		}
		if err != nil {
			return err
		}
	}
	g.unrecovered, g.moving = false, false
	return nil
}

// undo removes an unfinished volume. Its source may still be frozen.
func (g *VolumeGroup) undo(ctx context.Context, report *Report, volume LogicalVolume) error {
	if name, ok := volume.tagValue(sourceTag); ok {
		if source, ok := report.Find(name); ok {
			if err := g.thaw(report, source); err != nil {
				return err
			}
		}
	}
	return g.remove(ctx, volume.Name)
}

func (g *VolumeGroup) thaw(report *Report, volume LogicalVolume) error {
	device, err := g.system.activator.find(report, volume)
	if err != nil || device == "" {
		return err
	}
	_, err = blockdev.Thaw(device)
	return err
}

// replace completes the replacement of a volume by its copy.
func (g *VolumeGroup) replace(ctx context.Context, report *Report, with, name string) error {
	if with != name {
		if _, ok := report.Find(name); ok {
			if err := g.remove(ctx, name); err != nil {
				return err
			}
		}
		if _, err := g.system.lvm(ctx, "lvrename", "-q", g.name, with, name); err != nil {
			return err
		}
	}
	return g.tag(ctx, name, nil, []string{replacesTag + name})
}

// tagValue returns the rest of the tag with a prefix.
func (v LogicalVolume) tagValue(prefix string) (string, bool) {
	at := slices.IndexFunc(v.Tags, func(tag string) bool { return strings.HasPrefix(tag, prefix) })
	if at < 0 {
		return "", false
	}
	return v.Tags[at][len(prefix):], true
}

// IsMoving reports whether a volume exists only under a temporary name.
func (r *Report) IsMoving(name string) bool {
	return slices.ContainsFunc(r.LogicalVolumes, func(v LogicalVolume) bool { return v.HasTags(replacesTag + name) })
}
