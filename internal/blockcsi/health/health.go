package health

import (
	"cmp"
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/volsim/volsim/internal/blockcsi"
	"github.com/volsim/volsim/plugins/nodefs"
)

// lowBytesDefault is the default of Config.LowBytes.
const lowBytesDefault = 1 << 30

// Config configures the health checks.
type Config struct {
	// LowBytes is the free space in bytes below which a pool is nearly full; 0 means 1 GiB.
	LowBytes int64
}

// allocationReporter is an optional interface of a blockcsi.Pool. It reports how many bytes of a
// volume are allocated. A fully allocated volume can be filled however full the pool is. Without
// this interface, volumes are never reported to be short of space.
type allocationReporter interface {
	BackedBytes(ctx context.Context, volume blockcsi.Volume) (int64, error)
}

// Services are a driver's services with the health calls. Create them with New.
type Services struct {
	driver  *blockcsi.Driver
	cfg     Config
	readers readers
}

// New returns the services of a driver.
func New(driver *blockcsi.Driver, cfg Config) *Services {
	cfg.LowBytes = cmp.Or(cfg.LowBytes, lowBytesDefault)
	return &Services{driver: driver, cfg: cfg}
}

// Controller returns the driver's controller service.
func (s *Services) Controller() csi.ControllerServer {
	return &controller{ControllerServer: s.driver.Controller(), services: s}
}

// Node returns the driver's node service of a node; see blockcsi.Driver.Node.
func (s *Services) Node(nodeID string, fs *nodefs.Real) csi.NodeServer {
	return &nodeService{NodeServer: s.driver.Node(nodeID, fs), services: s, id: nodeID, fs: fs}
}

// finding is one problem of a volume.
type finding struct {
	status  csi.VolumeHealthErrorType
	reason  string
	message string
}

// csiHealth converts findings to CSI's type. Each status and reason appears once.
func csiHealth(id string, findings []finding) *csi.VolumeHealth {
	health := &csi.VolumeHealth{VolumeId: id}
	for i, each := range findings {
		if slices.ContainsFunc(findings[:i], func(f finding) bool {
			return f.status == each.status &&
				f.reason == each.reason
		}) {
			continue
		}
		health.HealthStatuses = append(health.HealthStatuses, &csi.VolumeHealth_VolumeHealthEntry{
			Status: each.status, Reason: each.reason, Message: each.message,
		})
	}
	return health
}
