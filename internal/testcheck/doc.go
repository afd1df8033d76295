// Package testcheck ends or fails a test on an error or a difference.
//
//	fs, err := nodefs.NewReal(t.TempDir())
//	testcheck.NoError(t, err)
//	pod := testcheck.Must(client.CoreV1().Pods("default").Create(ctx, newPod("a"), metav1.CreateOptions{}))
//	testcheck.Equal(t, "volumes in use", []string{"v"}, inUse(pod))
//
// It depends on no Kubernetes package, so the small test programs of virtual machines can use it.
// Tests with an API server use package testworld too.
package testcheck
