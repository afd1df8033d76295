package lvm2

import (
	"context"
	"errors"
	"fmt"
)

// relocatedName returns the temporary name of a volume's relocated copy.
func relocatedName(name string) string { return name + ".moved" }

// relocate grows an inactive volume without free extents behind it, by a copy elsewhere that takes
// its name. The caller holds the volume's lock, and not that of the metadata.
func (g *VolumeGroup) relocate(ctx context.Context, volume LogicalVolume, size int64) error {
	leave, err := g.volumes.acquire(ctx, relocatedName(volume.Name))
	if err != nil {
		return err
	}
	defer leave()
	spec := Spec{Name: relocatedName(volume.Name), Size: size, Tags: append([]string{unfinishedTag}, volume.Tags...)}
	arguments, err := g.createArguments(&spec)
	if err != nil {
		return err
	}
	err = g.withMetadata(ctx, func() error {
		_, err := g.system.lvm(ctx, arguments...)
		return err
	})
	if errors.Is(err, ErrNoSpace) {
		err = fmt.Errorf("%w: and none elsewhere: %w", ErrNotContiguous, err)
	}
	if err != nil {
		return err
	}
	return g.moveTo(ctx, volume, spec.Name)
}

// moveTo copies a volume to an unfinished one, which then replaces it.
func (g *VolumeGroup) moveTo(ctx context.Context, volume LogicalVolume, name string) error {
	uncanceled := context.WithoutCancel(ctx) // from here on the move must complete, which is quick
	_, to, err := g.find(ctx, name)
	if err == nil {
		err = g.copy(ctx, volume, to, false)
	}
	return g.withMetadata(uncanceled, func() error {
		if err != nil {
			return errors.Join(err, g.remove(uncanceled, name))
		}
		var permission []string
		if volume.ReadOnly {
			permission = []string{"--permission", "r"}
		}
		arguments := append([]string{
			"lvchange", "-q", "--deltag", unfinishedTag, "--addtag", replacesTag + volume.Name,
		}, permission...)
		if _, err := g.system.lvm(uncanceled, append(arguments, g.name+"/"+name)...); err != nil {
			return err
		}
		g.moving = true
		return g.recover(uncanceled)
	})
}
