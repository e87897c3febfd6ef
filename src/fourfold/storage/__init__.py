"""Code that stores share: records of exports and the rules for them."""
