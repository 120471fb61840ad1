"""Small tools that know nothing of privacy or trees."""
