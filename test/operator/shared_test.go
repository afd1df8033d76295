package operator_test

import (
	"context"
	"errors"
	"os"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/volsim/volsim/cluster"
	_ "github.com/volsim/volsim/fake/crd"
	dbv1 "github.com/volsim/volsim/test/operator/api/v1"
	"github.com/volsim/volsim/test/operator/controller"
)

// bug is the bug that is planted in the operator, for TestTable.
var bug = controller.Bug(os.Getenv("BUG"))

// scheme has the types of the operator.
var scheme = runtime.NewScheme()

func init() {
	if err := clientscheme.AddToScheme(scheme); err != nil {
		panic(err)
	}
	if err := dbv1.AddToScheme(scheme); err != nil {
		panic(err)
	}
}

// setup adds the operator to a manager, as its program does.
func setup(mgr ctrl.Manager) error {
	return (&controller.DatabaseReconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("operator"), Bug: bug,
	}).SetupWithManager(mgr)
}

// database returns the Database default/db.
func database(replicas int32, storage string) *dbv1.Database {
	return &dbv1.Database{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"},
		Spec: dbv1.DatabaseSpec{
			Replicas: ptr.To(replicas), Storage: resource.MustParse(storage), Image: "database:1", ClaimPolicy: dbv1.DeleteClaims,
		},
	}
}

// act creates the Database default/db, changes it by merge patches, and then deletes it if there are
// none.
func act(ctx context.Context, c *cluster.Cluster, replicas int32, patches ...string) error {
	user, err := client.New(c.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	err = user.Create(ctx, database(replicas, "1Gi"))
	for _, merge := range patches {
		err = errors.Join(err, patch(ctx, user, merge))
	}
	if len(patches) == 0 {
		err = errors.Join(err, user.Delete(ctx, database(0, "0")))
	}
	return err
}

// patch changes the Database default/db.
func patch(ctx context.Context, c client.Client, merge string) error {
	return c.Patch(ctx, database(0, "0"), client.RawPatch(types.MergePatchType, []byte(merge)))
}
