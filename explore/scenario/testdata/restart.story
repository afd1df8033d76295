# A claim is deleted and made again under its name: the volume of the old one is not the new one's.
components: pvcontroller, pvcprotection, pvprotection
faults: conflict(0.05), refused(0.03), lost(0.05), relist(0.02), expire(0.01), tick(0.01), crash(pvcontroller, 1), crash(pvcprotection, 1), crash(pvprotection, 1), stop(pvcontroller, 0.003), replicate(pvcontroller, 0.003)
rules: I1, I2
user alice
  create volume disk-1 1Gi
  create claim data 1Gi class=
  wait claim data Bound
  delete claim data
  create claim data 1Gi class=
  create volume disk-2 1Gi
  wait claim data Bound
schedule
  39 event: crash pvcontroller with persistentvolumes 2 behind
violates: I2

   2  alice creates volume disk-1 of 1Gi (rv 7)
   6  pvcontroller marks volume disk-1 Available (rv 8)
  10  alice creates claim default/data of 1Gi (rv 9)
  14  pvcontroller reserves volume disk-1 for claim default/data (rv 10)
  17  pvcontroller marks volume disk-1 Bound (rv 11)
  20  pvcontroller binds claim default/data to volume disk-1 (rv 12)
  23  pvcontroller marks claim default/data Bound (rv 13)
  29  alice deletes claim default/data, which remains until its finalizers [kubernetes.io/pvc-protection] are removed (rv 14)
  34  pvcprotection removes the last finalizer from claim default/data (rv 15)
  39  >> pvcontroller crashes and restarts, and its first list of volumes is 2 events old
  45  alice creates claim default/data of 1Gi (rv 16)
  49  pvcontroller reserves volume disk-1 for claim default/data instead of its previous claim (rv 17)
      (its volume cache has not seen steps 14 and 17)
violation: I2: a volume rebound to another claim without being unbound in between: volume disk-1 was rebound from claim default/data (f1bbcdcb) to claim default/data (8ff34785)
