package snapshotter

import (
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/customresource"
	"github.com/volsim/volsim/internal/snapshotapi"
)

// Filters returns the filters for the caches of a driver's snapshotter: contents of the driver that need
// something. Classes are read when one does.
func Filters(driverName string) []fake.Filter {
	never := func(_, _ fake.Object) bool { return false }
	return []fake.Filter{
		filter(snapshotapi.Contents, func(old, content *snapshotapi.VolumeSnapshotContent) bool {
			return isOf(driverName, content) && needsSync(old, content)
		}),
		filter(snapshotapi.GroupContents, func(old, content *snapshotapi.VolumeGroupSnapshotContent) bool {
			return isGroupOf(driverName, content) && groupNeedsSync(old, content)
		}),
		{Resource: snapshotapi.Classes.CommitName(), Match: never},
		{Resource: snapshotapi.GroupClasses.CommitName(), Match: never},
	}
}

// Matches reports whether an object is a content with which the snapshotter of a driver has something to
// do.
func Matches(driverName string, obj fake.Object) bool {
	if content, err := snapshotapi.Contents.Parse(obj); err == nil && content.Kind == snapshotapi.Contents.Name {
		return isOf(driverName, content) && needsSync(nil, content)
	}
	content, err := snapshotapi.GroupContents.Parse(obj)
	return err == nil && isGroupOf(driverName, content) && groupNeedsSync(nil, content)
}

// filter returns the filter of a kind that passes the changes for which matches returns true. Deletions
// concern no snapshotter.
func filter[T any, P customresource.Object[T]](kind customresource.Kind[T, P], matches func(old, obj P) bool) fake.Filter {
	return fake.Filter{Resource: kind.CommitName(), Match: func(old, obj fake.Object) bool {
		if obj == nil {
			return false
		}
		after, err := kind.Parse(obj)
		if err != nil {
			return false
		}
		var before P
		if old != nil {
			if before, err = kind.Parse(old); err != nil {
				before = nil
			}
		}
		return matches(before, after)
	}}
}
