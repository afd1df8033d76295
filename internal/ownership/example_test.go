package ownership_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/ownership"
	"github.com/volsim/volsim/plugins/nodefs"
)

// The group of a volume's files is changed to that of a pod; by its policy this need not be
// repeated.
func ExampleApply() {
	const volume, fsGroup = "/node/volume", 3000
	policy := corev1.FSGroupChangeOnRootMismatch
	files := nodefs.NewMemory("/node")
	if err := errors.Join(files.MkdirAll(volume), files.WriteFile(volume+"/letter", []byte("hello"))); err != nil {
		log.Fatal(err)
	}
	fmt.Println("needed:", ownership.NeedsChange(files, volume, fsGroup, &policy, false))
	var count atomic.Int64
	err := ownership.Apply(context.Background(), files, volume, fsGroup, false, &count)
	fmt.Println(count.Load(), "reached", err)
	for _, name := range []string{volume, volume + "/letter"} {
		info, err := files.Stat(name)
		fmt.Println(name, info.GID, info.Mode, err)
	}
	fmt.Println("needed:", ownership.NeedsChange(files, volume, fsGroup, &policy, false))
	// Output:
	// needed: true
	// 2 reached <nil>
	// /node/volume 3000 dgrwxrwx--- <nil>
	// /node/volume/letter 3000 -rw-rw---- <nil>
	// needed: false
}
