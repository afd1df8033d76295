package snapshotter

import (
	"context"
	"errors"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/customresource"
	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/sidecars/internal/driver"
	"github.com/volsim/volsim/sim"
)

// The defaults of Config.
//
// Upstream: external-snapshotter cmd/csi-snapshotter --retry-interval-start, --retry-interval-max,
// --snapshot-name-prefix, --groupsnapshot-name-prefix.
//
// Differs: upstream has 10 workers for contents, and 10 for contents of groups.
const (
	defaultBackoffMin  = time.Second
	defaultBackoffMax  = 5 * time.Minute
	defaultNamePrefix  = "snapshot"
	defaultGroupPrefix = "groupsnapshot"
	defaultWorkers     = 4
)

// Config configures a Controller.
type Config struct {
	Process    *sim.Process
	Client     kubernetes.Interface // for secrets
	Dynamic    dynamic.Interface    // for contents
	Informers  informers.SharedInformerFactory
	DriverName string
	Recorder   record.EventRecorder
	Conn       grpc.ClientConnInterface // to the driver's controller services; each call leaves the process

	// ExtraCreateMetadata adds the names of snapshot and content to the parameters of requests:
	// --extra-create-metadata.
	ExtraCreateMetadata bool
	NamePrefix          string // of the names of snapshots, "": snapshot
	NameUUIDLength      int    // characters of the UID in the names of snapshots, without dashes; 0: all, with dashes
	GroupNamePrefix     string // of the names of groups, "": groupsnapshot
	GroupNameUUIDLength int    // as NameUUIDLength, of groups

	BackoffMin time.Duration // delay after the first failure, doubled with each further one; 0: 1 s
	BackoffMax time.Duration // longest delay; 0: 5 min
	Workers    int           // number of contents synced at once; 0: 4
}

// A Controller is the snapshotter of one driver. Its state belongs to the tasks of its process.
type Controller struct {
	cfg    Config
	driver *driver.Driver
	group  csispec.GroupControllerClient
	queue  *sim.Queue[key]

	contents objects[snapshotapi.VolumeSnapshotContent, *snapshotapi.VolumeSnapshotContent]
	classes  customresource.Cache[snapshotapi.VolumeSnapshotClass, *snapshotapi.VolumeSnapshotClass]

	groupContents objects[snapshotapi.VolumeGroupSnapshotContent, *snapshotapi.VolumeGroupSnapshotContent]
	groupClasses  customresource.Cache[snapshotapi.VolumeGroupSnapshotClass, *snapshotapi.VolumeGroupSnapshotClass]
	servesGroups  func() bool // the caches of groups have been filled
}

// A key is a content in the queue.
type key struct {
	group bool // a VolumeGroupSnapshotContent
	name  string
}

// String returns the name, after "group/" for the content of a group.
func (k key) String() string {
	if k.group {
		return "group/" + k.name
	}
	return k.name
}

// errNotReady delays the next look at a content whose snapshot the driver has not finished.
var errNotReady = errors.New("the snapshot is not ready to use")

// New registers the snapshotter's queue, workers and handlers with its process. They run when the host
// runs. The kinds of snapshots must be served; see package snapshotapi. Groups are served if their kinds
// are.
//
// Upstream: external-snapshotter pkg/sidecar-controller NewCSISnapshotSideCarController (8.7.0).
func New(cfg Config) (*Controller, error) {
	cfg.setDefaults()
	c := &Controller{
		cfg: cfg, driver: driver.New(cfg.DriverName, cfg.Conn), group: csispec.NewGroupControllerClient(cfg.Conn),
		queue: sim.NewQueue[key](cfg.Process,
			sim.QueueConfig{Name: "contents", BackoffMin: cfg.BackoffMin, BackoffMax: cfg.BackoffMax}),
	}
	var contents, classes, groupContents, groupClasses cache.SharedIndexInformer
	var err error
	if c.contents, contents, err = watch(cfg, snapshotapi.Contents, c.contentChanged); err != nil {
		return nil, err
	}
	if c.classes, classes, err = snapshotapi.Classes.Cache(cfg.Informers); err != nil {
		return nil, err
	}
	cfg.Process.GateWorkers(contents.HasSynced)
	cfg.Process.GateWorkers(classes.HasSynced)
	if c.groupContents, groupContents, err = watch(cfg, snapshotapi.GroupContents, c.groupContentChanged); err == nil {
		c.groupClasses, groupClasses, err = snapshotapi.GroupClasses.Cache(cfg.Informers)
	}
	// The kinds of groups may not be served, which must not keep the workers from snapshots.
	c.servesGroups = func() bool { return err == nil && groupContents.HasSynced() && groupClasses.HasSynced() }
	for range cfg.Workers {
		c.queue.Work(c.sync)
	}
	return c, nil
}

func (cfg *Config) setDefaults() {
	if cfg.NamePrefix == "" {
		cfg.NamePrefix = defaultNamePrefix
	}
	if cfg.GroupNamePrefix == "" {
		cfg.GroupNamePrefix = defaultGroupPrefix
	}
	if cfg.BackoffMin == 0 {
		cfg.BackoffMin = defaultBackoffMin
	}
	if cfg.BackoffMax == 0 {
		cfg.BackoffMax = defaultBackoffMax
	}
	if cfg.Workers == 0 {
		cfg.Workers = defaultWorkers
	}
}

// watch returns the objects of a kind and their informer, and reports their changes. Their old state is nil if they are
// new.
func watch[T any, P customresource.Object[T]](
	cfg Config, kind customresource.Kind[T, P], changed func(old, obj P),
) (objects[T, P], cache.SharedIndexInformer, error) {
	cached, informer, err := kind.Cache(cfg.Informers)
	if err != nil {
		return objects[T, P]{}, nil, err
	}
	o := objects[T, P]{
		kind: kind, cache: cached, client: kind.Client(cfg.Dynamic), process: cfg.Process, recorder: cfg.Recorder,
		written: map[string]P{},
	}
	eventhandler.Add(informer, func(old, obj *unstructured.Unstructured) {
		after, err := kind.Parse(obj)
		if err != nil {
			return // the cache does not have it either
		}
		var before P
		if old != nil {
			if before, err = kind.Parse(old); err != nil {
				before = nil
			}
		}
		changed(before, after)
	}, func(obj *unstructured.Unstructured) { delete(o.written, obj.GetName()) })
	return o, informer, nil
}

func (c *Controller) contentChanged(old, content *snapshotapi.VolumeSnapshotContent) {
	if isOf(c.cfg.DriverName, content) && needsSync(old, content) {
		c.queue.Add(key{name: content.Name})
	}
}

func (c *Controller) groupContentChanged(old, content *snapshotapi.VolumeGroupSnapshotContent) {
	if isGroupOf(c.cfg.DriverName, content) && groupNeedsSync(old, content) {
		c.queue.Add(key{group: true, name: content.Name})
	}
}

// sync does what a content needs next, if the driver takes snapshots.
//
// Differs: upstream's sidecar ends at its start if the driver does not.
func (c *Controller) sync(ctx context.Context, k key) error {
	capabilities, err := c.driver.Capabilities(ctx)
	if err != nil || !capabilities[csispec.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT] {
		return err
	}
	switch {
	case !k.group:
		return c.syncContent(ctx, k)
	case c.servesGroups():
		return c.syncGroupContent(ctx, k)
	default:
		return errNotReady
	}
}
