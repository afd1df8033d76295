package cluster

import (
	"context"
	"fmt"
	"slices"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/controllers/snapshot"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/definitions"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/sidecars/snapshotter"
)

// The components of Config.Snapshots.
const (
	snapshotControllerName = "snapshotcontroller"
	snapshotterName        = "snapshotter" // of a driver
)

// installDefinitions serves the custom resources of files, and those of Config.Snapshots.
func (c *Cluster) installDefinitions(paths []string) error {
	if len(paths) > 0 {
		if err := definitions.Install(context.Background(), c.server, paths); err != nil {
			return fmt.Errorf("CRDDirectoryPaths: %w", err)
		}
	}
	if c.snapshots {
		if err := definitions.InstallText(context.Background(), c.server, snapshotapi.Definitions()); err != nil {
			return fmt.Errorf("snapshots: %w", err)
		}
	}
	return nil
}

// snapshotComponents returns the component of Config.Snapshots that is no driver's.
func (c *Cluster) snapshotComponents() []recipe {
	if !c.snapshots {
		return nil
	}
	if c.leaderElection {
		return []recipe{c.elect(snapshotController(), "snapshot-controller-leader")}
	}
	return []recipe{snapshotController()}
}

// snapshotController returns the snapshot controller. It sleeps until there is a snapshot or a content.
func snapshotController() recipe {
	return recipe{
		name: snapshotControllerName, replaces: "snapshot-controller", filters: snapshot.Filters,
		wakes: []wake{
			{resource: snapshotapi.Snapshots.CommitName()},
			{resource: snapshotapi.Contents.CommitName()},
			{resource: snapshotapi.GroupSnapshots.CommitName()},
			{resource: snapshotapi.GroupContents.CommitName()},
		},
		start: func(p ComponentContext) error {
			client, err := p.dynamicClient()
			if err != nil {
				return err
			}
			return snapshot.New(snapshot.Config{
				Process: p.Process, Client: p.Client, Dynamic: client, Informers: p.Informers,
				Recorder: p.Recorder(snapshot.EventSource),
			})
		},
	}
}

// snapshotter returns the driver's csi-snapshotter. It sleeps until a content concerns it.
func (d *csiDriver) snapshotter() sidecar {
	matches := func(obj fake.Object) bool { return snapshotter.Matches(d.Name, obj) }
	return sidecar{
		recipe: recipe{
			name:    snapshotterName,
			filters: func(func() informers.SharedInformerFactory) []fake.Filter { return snapshotter.Filters(d.Name) },
			wakes: []wake{
				{resource: snapshotapi.Contents.CommitName(), match: matches},
				{resource: snapshotapi.GroupContents.CommitName(), match: matches},
			},
			start: d.startSnapshotter,
		},
		needed: d.has.can(csispec.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT),
	}
}

func (d *csiDriver) startSnapshotter(p ComponentContext) error {
	client, err := p.dynamicClient()
	if err != nil {
		return err
	}
	_, err = snapshotter.New(snapshotter.Config{
		Process: p.Process, Client: p.Client, Dynamic: client, Informers: p.Informers, DriverName: d.Name,
		Recorder: p.Recorder("csi-snapshotter " + d.Name), Conn: p.driverConn(d.Name, d.controller),
		ExtraCreateMetadata: d.Sidecars.ExtraCreateMetadata,
	})
	return err
}

// A snapshotClass is a class of a driver of the cluster's devices.
type snapshotClass struct {
	resource schema.GroupVersionResource
	object   *unstructured.Unstructured
}

// snapshotClasses returns the default class of the driver's snapshots and, if it takes snapshots of several
// volumes at one moment, that of its groups. They have the name of its storage class. There are none for a
// driver of the user's own, and without Config.Snapshots.
func (d *csiDriver) snapshotClasses() []snapshotClass {
	if d.className == "" || !d.snapshots {
		return nil
	}
	meta := func(isDefault string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: d.className, Annotations: map[string]string{isDefault: "true"}}
	}
	classes := []snapshotClass{{snapshotapi.Classes.Resource, snapshotapi.Classes.Unstructured(&snapshotapi.VolumeSnapshotClass{
		ObjectMeta: meta(snapshotapi.DefaultClass), Driver: d.Name, DeletionPolicy: snapshotapi.Delete,
	})}}
	if d.has.groups {
		classes = append(classes, snapshotClass{
			snapshotapi.GroupClasses.Resource, snapshotapi.GroupClasses.Unstructured(&snapshotapi.VolumeGroupSnapshotClass{
				ObjectMeta: meta(snapshotapi.GroupDefaultClass), Driver: d.Name, DeletionPolicy: snapshotapi.Delete,
			}),
		})
	}
	return classes
}

// hasSnapshotClasses reports whether those classes exist.
func (c *Cluster) hasSnapshotClasses(d *csiDriver) bool {
	return !slices.ContainsFunc(d.snapshotClasses(), func(class snapshotClass) bool {
		_, has := c.server.Get(class.resource.GroupResource().String(), "", d.className)
		return !has
	})
}

// addSnapshotClasses stores those classes.
func (c *Cluster) addSnapshotClasses(d *csiDriver) error {
	for _, class := range d.snapshotClasses() {
		if err := c.server.Add(class.object); err != nil {
			return fmt.Errorf("driver %s: %w", d.Name, err)
		}
	}
	return nil
}

// createSnapshotClasses creates those classes, unless they exist.
func createSnapshotClasses(ctx context.Context, client dynamic.Interface, d *csiDriver) error {
	for _, class := range d.snapshotClasses() {
		_, err := client.Resource(class.resource).Create(ctx, class.object, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// takesGroups reports whether the driver takes snapshots of several volumes at one moment.
func (d *csiDriver) takesGroups(ctx context.Context) (bool, error) {
	groups, err := csispec.NewGroupControllerClient(d.controller).
		GroupControllerGetCapabilities(ctx, &csispec.GroupControllerGetCapabilitiesRequest{})
	if err != nil && status.Code(err) != codes.Unimplemented {
		return false, fmt.Errorf("GroupControllerGetCapabilities: %w", err)
	}
	return slices.ContainsFunc(groups.GetCapabilities(), func(each *csispec.GroupControllerServiceCapability) bool {
		return each.GetRpc().GetType() == csispec.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT
	}), nil
}
