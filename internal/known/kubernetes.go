package known

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/fake"
)

// k8s is the repository of Kubernetes.
const k8s = "kubernetes/kubernetes"

const nodeComponents = "components: pvcontroller, provisioner, attachdetach, attacher, kubelet"

// run is a pod that runs and is deleted.
var run = lines(
	"user alice",
	"  create claim data 1Gi",
	"  create pod web data on=node-1",
	"  wait pod web Running",
	"  delete pod web",
	"  wait pod web gone",
)

// kubernetes are bugs of its storage controllers and its kubelet. They are given to those of this module.
var kubernetes = []Bug{
	{
		Name: "kubernetes-27836", Project: "Kubernetes", Repository: k8s,
		Issues: []string{"issue 27836", "pull 27837"}, Year: 2016, FoundBy: "e2e tests",
		Title: "Detach before the node's status is written",
		What: "The attach/detach controller starts a detach before it has removed the volume from the attached volumes in the " +
			"status of the node. A kubelet that reads the list may mount the volume meanwhile.",
		Rule: "I19", Text: lines(nodeComponents) + run, Interceptors: Client("attachdetach", neverWithdraws),
		Config: explore.Config{Strategy: explore.Holds}, Within: 1,
	},
	{
		Name: "kubernetes-48081", Project: "Kubernetes", Repository: k8s,
		Issues: []string{"issue 48081"}, Year: 2017, FoundBy: "user report",
		Title: "Restart with empty caches: bound, yet lost",
		What: "The PersistentVolume controller restarts, and its caches are not filled. It takes what it does not find for deleted. " +
			"In the report these were claims, and their volumes were deleted. Here it is a volume, and its claim becomes Lost.",
		Rule: "I6",
		Text: lines(
			"components: pvprotection",
			"user alice",
			"  create volume v1 1Gi",
			"  create claim data 1Gi class=",
			"  wait claim data Bound",
			"  let crash pvcontroller",
		),
		Components: startsWithoutVolumes,
		Config:     explore.Config{Strategy: explore.Holds}, Within: 46,
	},
	{
		Name: "kubernetes-66287", Project: "Kubernetes", Repository: k8s,
		Issues: []string{"issue 66287", "pull 67062"}, Year: 2018, FoundBy: "user report",
		Title: "Volume reclaimed: claim not yet in the cache",
		What: "A volume refers to a claim that the cache of the PersistentVolume controller does not have yet. The controller does " +
			"not ask the server, takes the claim for deleted, and reclaims the volume.",
		Rule: "I8",
		Text: lines(
			"components: pvcontroller",
			"faults: crash(pvcontroller, 1)",
			"user alice",
			"  create volume v1 1Gi",
			"  create claim data 1Gi class=",
		),
		Interceptors: Client("pvcontroller", neverFound),
		Config:       explore.Config{Strategy: explore.Faults}, Within: 200,
	},
	{
		Name: "kubernetes-75980", Project: "Kubernetes", Repository: k8s,
		Issues: []string{"issue 75980", "issue 76703"}, Year: 2019, FoundBy: "reading the code",
		Title: "Claim of a running pod is deleted",
		What: "The controller that protects claims looks for pods in its cache only. A pod that the cache has not seen yet uses the " +
			"claim, and the controller removes the finalizer.",
		Rule: "I28",
		Text: lines(
			"components: pvcontroller, pvcprotection",
			"user alice",
			"  create volume v1 1Gi",
			"  create claim data 1Gi class=",
			"  wait claim data Bound",
			"  create pod web data on=node-1",
			"  delete claim data",
		),
		Interceptors: Client("pvcprotection", listsNoPods),
		Config:       explore.Config{Strategy: explore.Holds}, Within: 42,
	},
	{
		Name: "kubernetes-86360", Project: "Kubernetes", Repository: k8s,
		Issues: []string{"issue 86360"}, Year: 2019, FoundBy: "maintainer",
		Title: "No NodeStage after a timed out NodeUnstage",
		What: "A call of NodeUnstageVolume times out, and the driver continues. The kubelet does not take the volume for uncertain: " +
			"for the next pod it does not stage the volume again.",
		Rule: "I24", Text: lines(nodeComponents, "faults: driver-lost DeadlineExceeded(NodeUnstageVolume, 1)") + run,
		Interceptors: Driver("kubelet", timeoutsSucceed),
		Config:       explore.Config{Strategy: explore.Faults}, Within: 2,
	},
	{
		Name: "kubernetes-93902", Project: "Kubernetes", Repository: k8s,
		Issues: []string{"issue 93902", "pull 94599"}, Year: 2020, FoundBy: "CI flake",
		Title: "Detach repeated after the next attach",
		What: "The attach/detach controller reads at two moments whether an operation is pending and whether the volume is attached. " +
			"If the operation ends in between, it starts it again. Here a detach is repeated when the volume is attached again.",
		Rule: "I22", Text: lines(nodeComponents) + run + lines("  create pod next data on=node-1", "  wait pod next Running"),
		Interceptors: detachesAgain,
		Config:       explore.Config{Strategy: explore.Holds}, Within: 1,
	},
	{
		Name: "kubernetes-120150", Project: "Kubernetes", Repository: k8s,
		Issues: []string{"issue 120150"}, Year: 2023, FoundBy: "production",
		Title: "Restarted kubelet unmounts running pods",
		What: "The kubelet restarts while the API server cannot be reached. It does not learn which volumes its pods need, and " +
			"unmounts those that it finds mounted. The pods run on without their volumes. (Open in 2026.)",
		Rule: "I27",
		Text: lines(
			nodeComponents,
			"faults: crash(kubelet(node-1), 1)",
			"user alice",
			"  create claim data 1Gi",
			"  create pod web data on=node-1",
		),
		Interceptors: WithMemory(unmountsFirst),
		Config:       explore.Config{Strategy: explore.Restarts}, Within: 60,
	},
	{
		Name: "kubernetes-121271", Project: "Kubernetes", Repository: k8s,
		Issues: []string{"issue 121271", "pull 139045"}, Year: 2023, FoundBy: "user report",
		Title: "Failed republish unmounts a running pod",
		What: "The kubelet publishes the volume of a running pod again. The driver answers with a final error, and the kubelet " +
			"removes the mount that the pod uses.",
		Rule: "I27",
		Text: lines(
			nodeComponents,
			"rules: I27",
			"faults: driver Internal(NodePublishVolume, 1)",
			"user alice",
			"  create claim data 1Gi",
			"  create pod web data on=node-1",
			"  wait pod web Running",
			"  let crash kubelet(node-1)",
		),
		Interceptors: Driver("kubelet", undoes),
		Config:       explore.Config{Strategy: explore.Faults}, Within: 3,
	},
	{
		Name: "kubernetes-142332", Project: "Kubernetes", Repository: k8s,
		Issues: []string{"issue 142332", "pull 141891"}, Year: 2026, FoundBy: "user report",
		Title: "Stale cache: a claimed volume is deleted",
		What: "Before it deletes a released volume, the PersistentVolume controller looks up the claim in its cache only. The volume was " +
			"given to the next claim of that name, which the cache lacks, and the controller deletes its data. (Open in 2026.)",
		Rule: "I8",
		Text: lines(
			"components: pvcprotection, pvprotection",
			"rules: I1, I3, I4, I8, I9, I12, L1, L2, L7",
			"user alice",
			"  create volume disk 1Gi path=/tmp/disk for=data",
			"  create claim data 1Gi class=",
			"  wait claim data Bound",
			"  delete claim data",
			"  wait volume disk Released",
			"  create claim data 1Gi class=",
			"  set volume disk reclaim=Delete bind=data",
		),
		Components: cachedClaims,
		Config:     explore.Config{Strategy: explore.Holds}, Within: 34,
	},
}

// neverWithdraws skips writing an empty list of attached volumes.
func neverWithdraws(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		var patch corev1.Node
		if r.Verb == "patch" && r.Resource.Resource == "nodes" && strings.Contains(string(r.Patch), `"volumesAttached"`) &&
			json.Unmarshal(r.Patch, &patch) == nil && len(patch.Status.VolumesAttached) == 0 {
			node, err := own.CoreV1().Nodes().Get(context.Background(), r.Name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			return node, nil
		}
		return serve()
	}
}

// neverFound answers that the requested claim does not exist.
func neverFound(*fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if r.Verb == "get" && r.Resource.Resource == "persistentvolumeclaims" {
			return nil, apierrors.NewNotFound(r.Resource.GroupResource(), r.Name)
		}
		return serve()
	}
}

// listsNoPods answers a list of pods with none.
func listsNoPods(*fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if r.Verb == "list" && r.Resource.Resource == "pods" {
			return &corev1.PodList{}, nil
		}
		return serve()
	}
}

// timeoutsSucceed treats an unstage that timed out as success.
func timeoutsSucceed() Invoking {
	return func(ctx context.Context, method string, args, reply any, invoke Invoke) error {
		err := invoke(ctx, method, args, reply)
		if method == csispec.Node_NodeUnstageVolume_FullMethodName && status.Code(err) == codes.DeadlineExceeded {
			return nil
		}
		return err
	}
}

// undoes unmounts a volume after a failed mount.
func undoes() Invoking {
	return func(ctx context.Context, method string, args, reply any, invoke Invoke) error {
		err := invoke(ctx, method, args, reply)
		if r, is := args.(*csispec.NodePublishVolumeRequest); is && err != nil {
			undo := &csispec.NodeUnpublishVolumeRequest{VolumeId: r.VolumeId, TargetPath: r.TargetPath}
			return errors.Join(err,
				invoke(ctx, csispec.Node_NodeUnpublishVolume_FullMethodName, undo, &csispec.NodeUnpublishVolumeResponse{}))
		}
		return err
	}
}

// detachesAgain repeats the last detach after the volume has been attached again.
func detachesAgain() cluster.Interceptors {
	var last func() error
	conn := Driver("attacher", func() Invoking {
		return func(ctx context.Context, method string, args, reply any, invoke Invoke) error {
			err := invoke(ctx, method, args, reply)
			if method == csispec.Controller_ControllerUnpublishVolume_FullMethodName && err == nil {
				last = func() error { return invoke(ctx, method, args, &csispec.ControllerUnpublishVolumeResponse{}) }
			}
			return err
		}
	})()
	conn.Client = Client("attacher", func(*fake.Clientset) fake.InterceptorFunc {
		last = nil
		return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			obj, err := serve()
			if err == nil && last != nil && r.Verb == "patch" && r.Resource.Resource == "volumeattachments" &&
				r.Subresource == "status" && strings.Contains(string(r.Patch), `"attached":true`) {
				again := last
				last = nil
				return obj, again()
			}
			return obj, err
		}
	})().Client
	return conn
}
