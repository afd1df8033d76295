package health

import (
	"cmp"
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/volsim/volsim/plugins/blockcsi"
	"github.com/volsim/volsim/plugins/nodefs"
)

// lowBytesDefault is Config.LowBytes when it is left out.
const lowBytesDefault = 1 << 30

// Config says what counts as ill.
type Config struct {
	// LowBytes is the room in a pool below which it is said to be nearly full;
	// 0 is 1 GiB.
	LowBytes int64
}

// allocationReporter is what a blockcsi.Pool may tell besides: how many bytes of a volume have
// their place already. A volume for which that is its size can be filled, however
// full the pool is. Of a pool that does not tell no volume is said to be short of room.
type allocationReporter interface {
	BackedBytes(ctx context.Context, volume blockcsi.Volume) (int64, error)
}

// Services are a driver's services with the calls of health. Make them with New.
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

// Node returns the driver's node service of one node; see blockcsi.Driver.Node.
func (s *Services) Node(nodeID string, fs *nodefs.Real) csi.NodeServer {
	return &nodeService{NodeServer: s.driver.Node(nodeID, fs), services: s, id: nodeID, fs: fs}
}

// finding is one thing that is wrong with a volume.
type finding struct {
	status  csi.VolumeHealthErrorType
	reason  string
	message string
}

// csiHealth are findings in CSI's words: each status and reason once.
func csiHealth(id string, findings []finding) *csi.VolumeHealth {
	health := &csi.VolumeHealth{VolumeId: id}
	for i, each := range findings {
		if slices.ContainsFunc(findings[:i], func(f finding) bool { return f.status == each.status && f.reason == each.reason }) {
			continue
		}
		health.HealthStatuses = append(health.HealthStatuses, &csi.VolumeHealth_VolumeHealthEntry{
			Status: each.status, Reason: each.reason, Message: each.message,
		})
	}
	return health
}
