package known

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/explore"
)

// sidecars are bugs of the CSI sidecars.
var sidecars = []Bug{
	{
		Name: "external-provisioner-131", Project: "external-provisioner", Repository: "kubernetes-csi/external-provisioner",
		Issues: []string{"issue 131", "issue 311"}, Year: 2018, FoundBy: "user report",
		Title: "CreateVolume that timed out leaks a volume",
		What: "A call of CreateVolume times out, and the driver creates the volume. The claim is deleted meanwhile. The provisioner " +
			"takes the timeout for a final error and never calls again, so that it does not learn the volume's ID and cannot delete it.",
		Rule: "I11",
		Text: lines(
			"components: pvcontroller, pvcprotection, pvprotection, provisioner",
			"faults: driver-lost DeadlineExceeded(CreateVolume, 1)",
			"user alice",
			"  create claim data 1Gi",
			"  delete claim data",
		),
		Interceptors: Driver("provisioner", timeoutsAreFinal),
		Config:       explore.Config{Strategy: explore.Faults}, Within: 8,
	},
}

// timeoutsAreFinal replaces a timeout by a final error.
func timeoutsAreFinal() Invoking {
	return func(ctx context.Context, method string, args, reply any, invoke Invoke) error {
		err := invoke(ctx, method, args, reply)
		if status.Code(err) == codes.DeadlineExceeded {
			return status.Error(codes.InvalidArgument, "timed out")
		}
		return err
	}
}
