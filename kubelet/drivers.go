package kubelet

import "context"

// syncDriver registers a driver with the kubelet and with the cluster.
func (k *Kubelet) syncDriver(ctx context.Context, name string) error {
	info, err := k.csi.AddDriver(ctx, name, k.cfg.Drivers[name])
	if err != nil {
		return err
	}
	return k.csi.Publish(ctx, name, info)
}
