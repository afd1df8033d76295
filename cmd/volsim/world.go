package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/schedulerconfig"
)

// The times of kubelets that renew Leases.
const (
	nodeGraceDefault = 50 * time.Second
	renewInterval    = 10 * time.Second
)

// worldOptions are the options of a cluster that few users need.
type worldOptions struct {
	components     []string
	volumesPerNode int
	kubeletsAttach bool
	hostPath       bool
	seLinux        bool
	seLinuxMount   bool
	syncFrequency  time.Duration
	nodeLeases     bool
	nodeGrace      time.Duration
	clockSpeed     int
	capacity       time.Duration
	healthMonitor  bool
	leaderElection bool
	snapshots      bool
	schedulerFile  string
	mountTokens    bool
}

func (o *worldOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.components, "components", nil,
		"comma-separated `names` of the components to run, such as pvcontroller,kubelet (default all); without kubelet there are no nodes")
	flags.IntVar(&o.volumesPerNode, "volumes-per-node", 0, "maximum number of volumes attached to a node; 0 means unlimited (array devices only)")
	flags.BoolVar(&o.kubeletsAttach, "kubelets-attach", false, "let the kubelets attach and detach volumes instead of the attach/detach controller")
	flags.BoolVar(&o.hostPath, "host-path-provisioning", false,
		"provision volumes of classes with provisioner kubernetes.io/host-path, as directories of node-1; always on with --by-hand")
	flags.BoolVar(&o.seLinux, "selinux", false, "mount volumes with SELinux labels (array devices only)")
	flags.BoolVar(&o.seLinuxMount, "selinux-mount", false, "with --selinux: use labels for volumes of all access modes (feature gate SELinuxMount)")
	flags.DurationVar(&o.syncFrequency, "sync-frequency", time.Minute, "how often kubelets set up volumes again whose CSIDriver has requiresRepublish")
	flags.DurationVar(&o.capacity, "storage-capacity", 0,
		"publish the driver's free capacity in CSIStorageCapacity objects and refresh it this often, such as 1m (default 1m on lvm, otherwise not published)")
	flags.BoolVar(&o.snapshots, "snapshots", true,
		"serve VolumeSnapshots and VolumeGroupSnapshots, as external-snapshotter 8.7.0 defines them, with default classes of the driver")
	flags.BoolVar(&o.healthMonitor, "health-monitor", false,
		"report the health of volumes every minute or five as events on claims and pods and as metrics of the kubelets")
	flags.BoolVar(&o.leaderElection, "leader-election", false,
		"let the sidecars and the snapshot controller act only while they hold their Leases in namespace kube-system")
	flags.StringVar(&o.schedulerFile, "scheduler-config", "",
		"`file` with a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1): extenders, profiles, plugins")
	flags.BoolVar(&o.mountTokens, "mount-tokens", false,
		"add a volume kube-api-access-... with the token of its service account to each pod, as a real API server does; the account must exist")
	flags.BoolVar(&o.nodeLeases, "node-leases", true,
		"let the kubelets renew the Leases of their nodes in namespace kube-node-lease every 10s; always off with --by-hand")
	flags.DurationVar(&o.nodeGrace, "node-monitor-grace-period", nodeGraceDefault, "how long a kubelet may be silent before its node is NotReady; more than 10s")
	flags.IntVar(&o.clockSpeed, "clock-speed", 1,
		"how many times as fast as the clock of this machine time passes in the cluster: with 60 its minute takes a second, and times in objects are ahead")
}

// validate returns an error for invalid options. A world that is stepped manually supports some.
func (o worldOptions) validate(devices string, manual bool) error {
	switch {
	case o.components != nil && len(o.components) == 0:
		return errors.New("--components is empty: specify a component")
	case o.volumesPerNode < 0:
		return fmt.Errorf("invalid --volumes-per-node %d: want no negative number", o.volumesPerNode)
	case o.syncFrequency <= 0:
		return fmt.Errorf("invalid --sync-frequency %v: want a positive duration", o.syncFrequency)
	case o.nodeGrace <= renewInterval:
		return fmt.Errorf("invalid --node-monitor-grace-period %v: kubelets renew Leases every %v", o.nodeGrace, renewInterval)
	case o.clockSpeed < 1:
		return fmt.Errorf("invalid --clock-speed %d: want at least 1", o.clockSpeed)
	case o.capacity < 0:
		return fmt.Errorf("invalid --storage-capacity %v: want no negative duration", o.capacity)
	case o.seLinuxMount && !o.seLinux:
		return errors.New("--selinux-mount requires --selinux")
	case o.needsArray() != "" && devices != string(cluster.Auto) && devices != string(cluster.Array):
		return fmt.Errorf("%s requires --devices %s", o.needsArray(), cluster.Array)
	case manual && o.kubeletsAttach:
		return errors.New("--by-hand does not support --kubelets-attach")
	case manual && o.seLinuxMount:
		return errors.New("--by-hand does not support --selinux-mount")
	case manual && o.clockSpeed > 1:
		return errors.New("--by-hand does not support --clock-speed: there time passes only by steps")
	case manual && o.schedulerFile != "":
		return errors.New("--by-hand does not support --scheduler-config")
	case manual && o.mountTokens:
		return errors.New("--by-hand does not support --mount-tokens")
	case manual && o.healthMonitor:
		return errors.New("--by-hand does not support --health-monitor")
	case manual && o.leaderElection:
		return errors.New("--by-hand does not support --leader-election")
	case manual && o.syncFrequency != time.Minute:
		return errors.New("--by-hand does not support --sync-frequency")
	}
	_, err := o.scheduler()
	return err
}

// scheduler returns the configuration of the scheduler, nil if there is none.
func (o worldOptions) scheduler() (*configv1.KubeSchedulerConfiguration, error) {
	if o.schedulerFile == "" {
		return nil, nil //nolint:nilnil // the default
	}
	text, err := os.ReadFile(o.schedulerFile)
	if err != nil {
		return nil, fmt.Errorf("--scheduler-config: %w", err)
	}
	file, err := schedulerconfig.Parse(text)
	if err == nil {
		_, err = schedulerconfig.New(file, schedulerconfig.Features{})
	}
	if err != nil {
		return nil, fmt.Errorf("--scheduler-config %s: %w", o.schedulerFile, err)
	}
	return file, nil
}

// needsArray returns an option that only array devices have, or "".
func (o worldOptions) needsArray() string {
	switch {
	case o.volumesPerNode > 0:
		return "--volumes-per-node"
	case o.seLinux:
		return "--selinux"
	default:
		return ""
	}
}

// apply adds the options to the configuration of a cluster.
func (o worldOptions) apply(cfg *cluster.Config) {
	cfg.Components, cfg.VolumesPerNode, cfg.KubeletsAttach = o.components, o.volumesPerNode, o.kubeletsAttach
	cfg.HostPathProvisioning, cfg.SELinux, cfg.SELinuxMount = o.hostPath, o.seLinux, o.seLinuxMount
	cfg.SyncFrequency, cfg.NodeLeases, cfg.NodeMonitorGracePeriod = o.syncFrequency, o.nodeLeases, o.nodeGrace
	cfg.LeaderElection = o.leaderElection
	cfg.ClockSpeed, cfg.StorageCapacity, cfg.HealthMonitor, cfg.API.MountTokens = o.clockSpeed, o.capacity, o.healthMonitor, o.mountTokens
	cfg.Snapshots = o.snapshots
	cfg.Scheduler, _ = o.scheduler() // it is valid
	if o.needsArray() != "" {
		cfg.Devices = cluster.Array
	}
}

func (o worldOptions) hasKubelets() bool {
	return o.components == nil || slices.Contains(o.components, "kubelet")
}

// headers returns the options as headers of a scenario.
func (o worldOptions) headers() []string {
	var all []string
	if o.components != nil {
		all = append(all, "components: "+strings.Join(o.components, ", "))
	}
	if o.volumesPerNode > 0 {
		all = append(all, fmt.Sprintf("volumes-per-node: %d", o.volumesPerNode))
	}
	if o.seLinux {
		all = append(all, "selinux: on")
	}
	if o.capacity > 0 {
		all = append(all, "storage-capacity: "+o.capacity.String())
	}
	if o.snapshots {
		all = append(all, "snapshots: on")
	}
	return all
}
