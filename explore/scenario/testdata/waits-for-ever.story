# Two claims and one volume: one claim gets it, and the other waits until there is a second one.
components: pvcontroller
faults: conflict(0.05), refused(0.03), lost(0.05), relist(0.02), expire(0.01), tick(0.01), crash(pvcontroller, 1), crash(pvcprotection, 1), crash(pvprotection, 1), stop(pvcontroller, 0.003), replicate(pvcontroller, 0.003)
rules: L1
user alice
  create volume disk-1 1Gi
  create claim mail 1Gi class=
user bob
  create claim wiki 1Gi class=
user carol
  wait volume disk-1 Bound
  create volume disk-2 1Gi
  wait claim mail Bound
  wait claim wiki Bound
violates: L1

   4  alice creates volume disk-1 of 1Gi (rv 7)
violation: L1: at rest, but pending:
  volume disk-1 is Pending and must be Available, since no claim has it (L1: a claim that waits although a volume is available)
  carol waits for volume disk-1 to be Bound
