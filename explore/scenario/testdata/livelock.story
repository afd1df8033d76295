# Two claims and two volumes: each claim gets a volume of its own.
components: pvcontroller
faults: conflict(0.05), refused(0.03), lost(0.05), relist(0.02), expire(0.01), tick(0.01), crash(pvcontroller, 1), crash(pvcprotection, 1), crash(pvprotection, 1), stop(pvcontroller, 0.003), replicate(pvcontroller, 0.003)
rules: I1
user alice
  create volume disk-1 1Gi
  create volume disk-2 1Gi
user bob
  create claim mail 1Gi class=
  create claim wiki 1Gi class=
violates: L7

   3  alice creates volume disk-1 of 1Gi (rv 7)
   8  pvcontroller marks volume disk-1 Available (rv 8)
  14  cleaner changes the reclaim policy of volume disk-1 from Retain to Delete (rv 9)
  20  keeper changes the reclaim policy of volume disk-1 from Delete to Retain (rv 10)
      … and steps 13 to 23 repeat indefinitely
violation: L7: livelock: the world never comes to rest
