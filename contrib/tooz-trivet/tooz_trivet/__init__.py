"""A driver of Tooz on Trivet's leases: locks, leader election and groups.

Its URL is trivet://host1,host2,host3; see the README next to the package.
"""
